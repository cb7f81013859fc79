package observed

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// given are the build IDs that the trace gives, of whatever process: by paths, and by
// inode numbers. A dump can be of another boot or machine. What it gives a file that
// the trace calls by the same path must be one of them.
type given struct {
	byPath  map[string][]filemap.BuildID
	byInode map[tracefs.Identifier][]filemap.BuildID
	last    *filemap.File // that was noted
	lastID  tracefs.Identifier
}

// maxGiven bounds the paths and the inodes, and maxGivenIDs the build IDs of one.
const (
	maxGiven    = 1 << 16
	maxGivenIDs = 1 << 6
)

func newGiven() given {
	return given{byPath: make(map[string][]filemap.BuildID), byInode: make(map[tracefs.Identifier][]filemap.BuildID)}
}

// noteIDs takes what the kernel said of the frames of a stack.
func (e *Mappings) noteIDs(s *resolve.Query) {
	for k := range s.Frames {
		if s.Frames[k].Form == tracefs.FormIdentifier {
			e.given.noteIDs(s.Frames[k].ID, s.Attributions[k].File)
		}
	}
}

// noteIDs takes what the kernel said of an identifier.
func (t *given) noteIDs(id tracefs.Identifier, f *filemap.File) {
	if f == nil || !f.HasID || f == t.last && id == t.lastID {
		return
	}
	t.last, t.lastID = f, id
	addGiven(t.byPath, bareName(f.Path), f.BuildID)
	if id.IsInode() {
		addGiven(t.byInode, id, f.BuildID)
	}
}

func addGiven[K comparable](of map[K][]filemap.BuildID, key K, id filemap.BuildID) {
	list, known := of[key]
	if !known && len(of) == maxGiven || len(list) == maxGivenIDs || slices.Contains(list, id) {
		return
	}
	of[key] = append(list, id)
}

// contradicts reports whether the trace gives a file of the dump build IDs, and never
// the one that the dump has.
func (t *given) contradicts(m *mapped) bool {
	if !m.hasID {
		return false
	}
	list := t.byInode[tracefs.InodeIdentifier(m.key.inode, m.key.dev.Major, m.key.dev.Minor)]
	for _, name := range m.names() {
		list = t.called(list, name)
	}
	return len(list) > 0 && !slices.Contains(list, m.id)
}

// called appends the build IDs that the trace gives files of a name. In a chroot the
// process has the end of it for the path.
func (t *given) called(list []filemap.BuildID, name string) []filemap.BuildID {
	list = append(list[:len(list):len(list)], t.byPath[name]...)
	for i := 1; i < len(name) && name[0] == '/'; i++ {
		if name[i] == '/' {
			list = append(list, t.byPath[name[i:]]...)
		}
	}
	return list
}

// doubt marks the runs of all readings with a file that the trace contradicts: nothing
// in them is a proof for the trace.
func (d *Dump) doubt(t *given) {
	contradicted := make(map[*mapped]bool)
	for _, m := range d.byID {
		if t.contradicts(m) {
			contradicted[m] = true
		}
	}
	if len(contradicted) == 0 {
		return
	}
	for _, versions := range d.spaces {
		for i := range versions {
			runs := versions[i].runs
			if slices.ContainsFunc(runs, func(r *run) bool { return contradicted[r.file] }) {
				for _, r := range runs {
					r.doubted = true
				}
			}
		}
	}
}
