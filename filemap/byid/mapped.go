package byid

import (
	"cmp"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
)

// maxMapped bounds the files that processes have mapped.
const maxMapped = 1 << 17

// mapped returns the files that the processes of this machine have mapped as code, as far as
// we may look at them. It is empty, and not nil, if that cannot be done.
func mapped() map[filemap.BuildID]string {
	files := make(map[filemap.BuildID]string)
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
			id := filemap.BuildID(m.BuildID.Padded())
			if old, ok := files[id]; ok && !better(m.Name, old) || !ok && len(files) == maxMapped {
				continue
			}
			files[id] = strings.Clone(m.Name)
		}
		return nil
	})
	return files
}

// better reports whether of two paths of the same contents the first one is to be used: one
// that is still there, and the shorter one.
func better(a, b string) bool {
	gone := func(s string) int {
		if strings.HasSuffix(s, " (deleted)") {
			return 1
		}
		return 0
	}
	return cmp.Or(gone(a)-gone(b), len(a)-len(b), strings.Compare(a, b)) < 0
}
