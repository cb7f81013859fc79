package observed

import (
	"cmp"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// index finds the mappings of a version that have an offset of their file.
type index struct {
	byOffset []int32 // mappings of files by offset
	ends     []uint64
	parts    map[*run][]int32 // the mappings of a run
	byName   map[string][]*run
	byInode  map[uint64][]*run
}

const (
	// maxHolding bounds the runs that an offset can be in: with more of them
	// none is ever excluded.
	maxHolding = 64
	// maxLooks bounds the mappings that are looked at for an offset.
	maxLooks = 1 << 10
)

func (v *version) offsets() *index {
	if v.index != nil {
		return v.index
	}
	x := &index{parts: make(map[*run][]int32), byName: make(map[string][]*run), byInode: make(map[uint64][]*run)}
	for i := range v.maps {
		if r := v.maps[i].run; r != nil {
			x.byOffset = append(x.byOffset, int32(i))
			x.parts[r] = append(x.parts[r], int32(i))
		}
	}
	for _, r := range v.runs {
		for _, name := range r.file.names() {
			x.byName[name] = append(x.byName[name], r)
		}
		x.byInode[r.file.key.inode] = append(x.byInode[r.file.key.inode], r)
	}
	slices.SortStableFunc(x.byOffset, func(a, b int32) int { return cmp.Compare(v.maps[a].offset, v.maps[b].offset) })
	end := uint64(0)
	for _, i := range x.byOffset {
		m := &v.maps[i]
		end = max(end, m.offset+(m.end-m.start))
		x.ends = append(x.ends, end)
	}
	v.index = x
	return x
}

// holding calls fn with the mappings that have an offset of their file, as long
// as it returns true. many: there are too many to look at all of them.
func (v *version) holding(offset uint64, fn func(m *mapping) bool) (many bool) {
	x := v.offsets()
	i, _ := slices.BinarySearchFunc(x.byOffset, offset, func(i int32, o uint64) int {
		if v.maps[i].offset <= o {
			return -1
		}
		return 1
	})
	for looks := 0; i > 0 && x.ends[i-1] > offset; i-- {
		if looks++; looks > maxLooks {
			return true
		}
		if m := &v.maps[x.byOffset[i-1]]; m.holds(offset) && !fn(m) {
			return true
		}
	}
	return false
}

// holds reports whether an offset of the mapping's file lies in the mapping.
func (m *mapping) holds(offset uint64) bool {
	return m.file != nil && offset >= m.offset && offset-m.offset < m.end-m.start
}

// candidate is a run that an offset can be in.
type candidate struct {
	run  *run
	code bool // it is code there
	seen int  // in how many versions
	// several: others of the same file have the offset, too. Each can be of an open
	// file of its own.
	several bool
	// renamed: a version has another name for the inode, and lacks this one. No build IDs
	// say whether that is the same file, as a link that another version has is.
	renamed bool
}

// candidates are the runs that an offset can be in, at a moment. many: there are
// too many to look at all of them.
func (m *moment) candidates(offset uint64) (list []candidate, many bool) {
	for i := range m.versions {
		tooMany := m.versions[i].holding(offset, func(x *mapping) bool {
			at := slices.IndexFunc(list, func(c candidate) bool { return c.run == x.run })
			if at < 0 {
				if len(list) == maxHolding {
					return false
				}
				at = len(list)
				list = append(list, candidate{run: x.run})
			}
			list[at].code = list[at].code || x.exec
			list[at].seen++
			return true
		})
		many = many || tooMany
	}
	return list, many
}

// find is the run of a moment that has an offset, of the runs that of finds in a
// version. more: there are several, of different files. known: there are any, with
// the offset or without.
func (m *moment) find(offset uint64, of func(v *version) []*run) (found candidate, more, known bool) {
	first := ""
	for i := range m.versions {
		v, here, named := &m.versions[i], false, false
		for _, r := range of(v) {
			known = true
			code, ok := v.has(r, offset)
			switch {
			case !ok:
				continue
			case found.run == nil || found.run == r || code && !found.code && found.run.file.isOne(r.file):
				found.several = found.several || found.run != nil && found.run != r
				found.run, found.code = r, found.code || code
				found.seen++
			case found.run.file.isOne(r.file):
				found.several = true
			default:
				more = true
			}
			if first == "" {
				first = bareName(r.file.name)
			}
			here, named = true, named || bareName(r.file.name) == first
		}
		found.renamed = found.renamed || here && !named
	}
	return found, more, known
}

// has reports whether a run of the version has an offset, and whether it is code
// there.
func (v *version) has(r *run, offset uint64) (code, ok bool) {
	for _, i := range v.offsets().parts[r] {
		if m := &v.maps[i]; m.holds(offset) {
			code, ok = code || m.exec, true
		}
	}
	return code, ok
}

// names are what a mapping event can call the file: a deleted file may be marked
// in one of them only, and named shared memory is announced by its bare name.
func (m *mapped) names() []string {
	bare := bareName(m.name)
	if name, ok := strings.CutPrefix(bare, "[anon_shmem:"); ok {
		return []string{bare, strings.TrimSuffix(name, "]")}
	}
	return []string{bare}
}

// called are the runs of a version whose file a mapping event calls by its name,
// and that can have the build ID that it gives.
func (v *version) called(f *filemap.File) []*run {
	list := v.offsets().byName[bareName(f.Path)]
	differs := func(r *run) bool { return r.file.hasID && f.HasID && r.file.id != f.BuildID }
	if slices.ContainsFunc(list, differs) {
		list = slices.DeleteFunc(slices.Clone(list), differs)
	}
	return list
}

// numbered are the runs of a version whose file has an inode number and device.
func (v *version) numbered(id tracefs.Identifier) []*run {
	inode, major, minor := id.Inode()
	list := v.offsets().byInode[inode]
	other := func(r *run) bool { return r.file.key.dev != procmap.Dev{Major: major, Minor: minor} }
	if slices.ContainsFunc(list, other) {
		list = slices.DeleteFunc(slices.Clone(list), other)
	}
	return list
}

// canBe are the runs that a mapping event calls by their name and that can have
// its identifier: an inode number is the file's own, except where a file system
// has others in /proc (overlayfs), on a device that is none.
func (v *version) canBe(id tracefs.Identifier, f *filemap.File) []*run {
	list := v.called(f)
	if !id.IsInode() || len(list) == 0 {
		return list
	}
	_, major, minor := id.Inode()
	return slices.DeleteFunc(slices.Clone(list), func(r *run) bool {
		return r.file.key.dev.Major != 0 || r.file.key.dev == procmap.Dev{Major: major, Minor: minor}
	})
}
