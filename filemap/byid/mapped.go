package byid

import (
	"cmp"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
)

// maxMapped bounds the files that processes have mapped, maxOfID those with one build ID.
const maxMapped, maxOfID = 1 << 17, 8

// mapped returns the files that the processes of this machine have mapped as code, as far as
// we may look at them, the best path first. It is empty, and not nil, if that cannot be done.
func mapped() map[filemap.BuildID][]string {
	files := make(map[filemap.BuildID][]string)
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec, Files: true}, IDs: procmap.NewIDs(nil)})
	if err != nil {
		return files
	}
	// A process that cannot be read, or a /proc that cannot, has nothing for us.
	_, _ = r.Walk(nil, func(p *procmap.Process, err error) error {
		for i := 0; err == nil && i < len(p.Mappings); i++ {
			m := &p.Mappings[i]
			if m.BuildID.IsZero() || !strings.HasPrefix(m.Name, "/") {
				continue
			}
			add(files, filemap.BuildID(m.BuildID.Padded()), m.Name)
		}
		return nil
	})
	return files
}

// add adds a path to those of a build ID, in order. A name that is near the end makes room for
// a better one.
func add(files map[filemap.BuildID][]string, id filemap.BuildID, name string) {
	list := files[id]
	at, known := slices.BinarySearchFunc(list, name, compare)
	switch {
	case known, at == maxOfID, list == nil && len(files) == maxMapped:
		return
	case len(list) == maxOfID:
		list = list[:maxOfID-1]
	}
	files[id] = slices.Insert(list, at, strings.Clone(name))
}

// compare orders paths with the same build ID: those that are still there, and shorter ones,
// come first.
func compare(a, b string) int {
	gone := func(s string) int {
		if strings.HasSuffix(s, " (deleted)") {
			return 1
		}
		return 0
	}
	return cmp.Or(gone(a)-gone(b), len(a)-len(b), strings.Compare(a, b))
}
