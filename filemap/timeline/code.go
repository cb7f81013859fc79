package timeline

import (
	"cmp"
	"iter"
	"slices"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// codes caches the code mappings of processes. They stay valid until a process maps
// something.
type codes struct {
	by   map[int]*code
	size int // mappings in all of them
}

// Bounds on the cache. A list that is used more often than it changes gets an index.
const (
	maxCodes    = 1 << 18 // mappings
	maxPieces   = 1 << 12 // of files, in one process, whose mappings are kept
	maxFits     = 1 << 16 // of such mappings, in one process
	indexedFrom = 64      // mappings
	indexedWhen = 4       // frames of them
)

// of is the code of a process.
func (c *codes) of(pid int, ms space.Mappings) *code {
	known := c.by[pid]
	if known == nil || known.all != ms {
		if known != nil {
			c.size -= known.all.Len()
		}
		if c.by == nil || c.size+ms.Len() > maxCodes {
			c.by, c.size = make(map[int]*code), 0
		}
		known = &code{all: ms}
		c.by[pid] = known
		c.size += ms.Len()
	}
	known.asked++
	if known.index == nil && known.asked > indexedWhen && ms.Len() > indexedFrom {
		known.index = newCodeIndex(ms)
	}
	return known
}

// code is what a process has mapped as code.
type code struct {
	all   space.Mappings
	asked int
	index *codeIndex // nil if it is not worth while
}

// candidates are the mappings of code of a process at a time that a frame with
// an offset in a file can lie in.
type candidates struct {
	code *code
	t    tracefs.Time
	list []*space.Mapping
	// known is what is kept of the list; nil if it is not of all of it.
	known *sameOffset
}

// fits reports whether a frame with an offset can lie in a mapping at a time.
func fits(m *space.Mapping, offset uint64, t tracefs.Time) bool {
	return isCode(m) && m.File.Kind.HasFile() && m.Since <= t && offset >= m.Offset && offset-m.Offset < m.End-m.Start
}

func isCode(m *space.Mapping) bool { return m.Perms&procmap.Exec != 0 }

// holding are the mappings that have an offset mapped as code.
func (c *code) holding(offset uint64, t tracefs.Time) candidates {
	out := candidates{code: c, t: t}
	if c.index == nil {
		for m := range c.all.All() {
			if fits(m, offset, t) {
				out.list = append(out.list, m)
			}
		}
		return out
	}
	same := c.index.at(offset)
	if same.newest.at <= t {
		out.list, out.known = same.list, same
		return out
	}
	for _, m := range same.list {
		if m.Since <= t {
			out.list = append(out.list, m)
		}
	}
	return out
}

// first is that of two mappings which has the lower address; one may be nil.
func first(m, n *space.Mapping) *space.Mapping {
	if m == nil || n != nil && n.Start < m.Start {
		return n
	}
	return m
}

// of is the first candidate in a file, nil if there is none, and whether there is
// only one.
func (c *candidates) of(f *space.File) (found *space.Mapping, only bool) {
	if c.known != nil && c.known.files != nil {
		in := c.known.files[f]
		return in.first, in.count == 1
	}
	count := 0
	for _, m := range c.list {
		if m.File == f {
			found = first(found, m)
			count++
		}
	}
	return found, count == 1
}

// places are the candidates'.
func (c *candidates) places(pid int) iter.Seq[place] {
	return func(yield func(place) bool) {
		for _, m := range c.list {
			if !yield(placeOf(pid, m)) {
				return
			}
		}
	}
}

// newer reports whether a candidate in another file than f can have been opened
// after a time.
func (c *candidates) newer(f *space.File, than tracefs.Time) bool {
	if c.known != nil {
		newest := c.known.newest
		if newest.file == f {
			newest = c.known.second
		}
		return newest.file != nil && newest.at > than
	}
	for _, m := range c.list {
		if m.File != f && m.Since > than {
			return true
		}
	}
	return false
}

// maps reports whether the process has any code of a file.
func (c *candidates) maps(f *space.File) bool {
	if x := c.code.index; x != nil {
		since, ok := x.files[f]
		return ok && since <= c.t
	}
	return c.any(func(g *space.File) bool { return f == g })
}

// mapsAs reports whether the process has any code of a file that was announced.
func (c *candidates) mapsAs(a announced) bool {
	if x := c.code.index; x != nil {
		return c.anyOf(x.names[undeleted(a.file.Path)], a.canBe)
	}
	return c.any(a.canBe)
}

// fileNumber identifies a file in the kernel.
type fileNumber struct {
	inode uint64
	dev   procmap.Dev
}

func numberOf(f *space.File) fileNumber { return fileNumber{f.Inode, f.Dev} }

// numberIn returns the number that an identifier is.
func numberIn(id tracefs.Identifier) fileNumber {
	inode, major, minor := id.Inode()
	return fileNumber{inode, procmap.Dev{Major: major, Minor: minor}}
}

// mapsNumber reports whether the process has any code of an inode.
func (c *candidates) mapsNumber(n fileNumber) bool {
	is := func(f *space.File) bool { return numberOf(f) == n }
	if x := c.code.index; x != nil {
		return c.anyOf(x.numbers[n], is)
	}
	return c.any(is)
}

// numbered is the first candidate in an inode, nil if there is none. several means
// that candidates have different build IDs.
func (c *candidates) numbered(n fileNumber) (found *space.Mapping, several bool) {
	var id elfid.ID
	add := func(m *space.Mapping) {
		if m == nil {
			return
		}
		found = first(found, m)
		switch its := m.File.BuildID; {
		case its.IsZero():
		case id.IsZero():
			id = its
		default:
			several = several || its != id
		}
	}
	if x := c.code.index; x != nil {
		for _, f := range x.numbers[n] {
			m, _ := c.of(f)
			add(m)
		}
		return found, several
	}
	for _, m := range c.list {
		if numberOf(m.File) == n {
			add(m)
		}
	}
	return found, several
}

// match is the mapped file that is the announced one, nil if there is none. only
// means that no other mapped file can be the announced one.
func (c *candidates) match(a announced) (found *space.File, only bool) {
	if x := c.code.index; x != nil {
		for _, f := range x.names[undeleted(a.file.Path)] {
			if !a.canBe(f) {
				continue
			}
			if m, _ := c.of(f); m == nil {
				continue
			}
			if found != nil {
				return found, false
			}
			found = f
		}
		return found, true
	}
	for _, m := range c.list {
		switch {
		case m.File == found || !a.canBe(m.File):
		case found != nil:
			return found, false
		default:
			found = m.File
		}
	}
	return found, true
}

func (c *candidates) any(is func(*space.File) bool) bool {
	for m := range c.code.all.All() {
		if isCode(m) && m.Since <= c.t && is(m.File) {
			return true
		}
	}
	return false
}

func (c *candidates) anyOf(files []*space.File, is func(*space.File) bool) bool {
	return slices.ContainsFunc(files, func(f *space.File) bool { return c.code.index.files[f] <= c.t && is(f) })
}

// codeIndex finds mappings of code by the offset or the file of a frame.
type codeIndex struct {
	// list are the ones of files by offset. It is an implicit tree, with the middle
	// of each part as its root; reach is by root how far into files the part does.
	list  []*space.Mapping
	reach []uint64
	// files is since when files have been mapped, as far as is known.
	files   map[*space.File]tracefs.Time
	names   map[string][]*space.File
	numbers map[fileNumber][]*space.File
	// bounds are where mappings begin and end in their files, in order. All
	// offsets between two of them have the same mappings.
	bounds []uint64
	pieces map[int]*sameOffset
	kept   int // mappings in pieces
}

func newCodeIndex(ms space.Mappings) *codeIndex {
	x := &codeIndex{files: make(map[*space.File]tracefs.Time), names: make(map[string][]*space.File), numbers: make(map[fileNumber][]*space.File)}
	for m := range ms.All() {
		if !isCode(m) {
			continue
		}
		f := m.File
		since, known := x.files[f]
		if !known {
			name, n := undeleted(f.Name), numberOf(f)
			x.names[name], x.numbers[n] = append(x.names[name], f), append(x.numbers[n], f)
		}
		if !known || m.Since < since {
			x.files[f] = m.Since
		}
		if f.Kind.HasFile() {
			x.list = append(x.list, m)
			x.bounds = append(x.bounds, m.Offset)
			if end := last(m) + 1; end != 0 {
				x.bounds = append(x.bounds, end)
			}
		}
	}
	slices.SortFunc(x.list, func(m, n *space.Mapping) int {
		return cmp.Or(cmp.Compare(m.Offset, n.Offset), cmp.Compare(m.Start, n.Start))
	})
	slices.Sort(x.bounds)
	x.bounds = slices.Compact(x.bounds)
	x.reach = make([]uint64, len(x.list))
	x.build(0, len(x.list))
	return x
}

// last is the last offset that a mapping has.
func last(m *space.Mapping) uint64 {
	if n := m.Offset + (m.End - m.Start - 1); n >= m.Offset {
		return n
	}
	return ^uint64(0)
}

func (x *codeIndex) build(from, to int) (reach uint64) {
	if from == to {
		return 0
	}
	i := (from + to) / 2
	x.reach[i] = max(last(x.list[i]), x.build(from, i), x.build(i+1, to))
	return x.reach[i]
}

// find adds the mappings of a part that have an offset.
func (x *codeIndex) find(list []*space.Mapping, from, to int, offset uint64) []*space.Mapping {
	if from == to {
		return list
	}
	i := (from + to) / 2
	if x.reach[i] < offset {
		return list
	}
	list = x.find(list, from, i, offset)
	m := x.list[i]
	if m.Offset > offset {
		return list
	}
	if last(m) >= offset {
		list = append(list, m)
	}
	return x.find(list, i+1, to, offset)
}

// sameOffset are the mappings of files that have an offset.
type sameOffset struct {
	list           []*space.Mapping
	newest, second since // of two files
	asked          int
	files          map[*space.File]inFile // nil if they are not worth while
}

// since is when a mapping of a file came to light.
type since struct {
	at   tracefs.Time
	file *space.File
}

// inFile is the first mapping of those in one file, and how many there are.
type inFile struct {
	first *space.Mapping
	count int
}

// few are looked through as fast as found by their file.
const few = 8

// at are the mappings that have an offset.
func (x *codeIndex) at(offset uint64) *sameOffset {
	piece, bound := slices.BinarySearch(x.bounds, offset)
	if bound {
		piece++
	}
	s := x.pieces[piece]
	if s == nil {
		s = &sameOffset{list: x.find(nil, 0, len(x.list), offset)}
		for _, m := range s.list {
			s.seen(since{m.Since, m.File})
		}
		if x.pieces == nil || len(x.pieces) >= maxPieces || x.kept+len(s.list) > maxFits {
			x.pieces, x.kept = make(map[int]*sameOffset), 0
		}
		x.pieces[piece] = s
		x.kept += len(s.list)
	}
	if s.asked++; s.files == nil && s.asked > indexedWhen && len(s.list) > few {
		s.files = byFile(s.list)
	}
	return s
}

func byFile(list []*space.Mapping) map[*space.File]inFile {
	files := make(map[*space.File]inFile)
	for _, m := range list {
		in := files[m.File]
		files[m.File] = inFile{first(in.first, m), in.count + 1}
	}
	return files
}

// seen keeps the newest of each of two files.
func (s *sameOffset) seen(n since) {
	switch {
	case s.newest.file == nil || n.file == s.newest.file:
		s.newest = since{max(n.at, s.newest.at), n.file}
	case n.at > s.newest.at:
		s.second, s.newest = s.newest, n
	case s.second.file == nil || n.at > s.second.at:
		s.second = n
	}
}
