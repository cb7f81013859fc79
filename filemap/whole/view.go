package whole

import (
	"fmt"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// view is what a process had mapped at a time. It implements unwind.Space.
type view struct {
	s     *Stage
	pid   int
	space *space.Space
	at    tracefs.Time
}

// Find implements unwind.Space. A mapping that came to light only later is not known
// to have been there.
func (v *view) Find(addr uint64) (m unwind.Mapping, ok bool) {
	p, ok := v.space.Lookup(addr, v.at)
	if !ok || p.Late {
		return m, false
	}
	at := p.Mapping
	m = unwind.Mapping{Start: at.Start, End: at.End, Offset: at.Offset, Exec: at.Perms&procmap.Exec != 0}
	switch {
	case !m.Exec:
	case at.File.Kind.HasFile(), at.File.Kind == procmap.VDSO:
		m.File = v.s.file(v.pid, at)
	case at.File.Kind == procmap.Anonymous:
		m.JIT = v.s.opt.JIT != nil && v.s.opt.JIT(v.pid)
	}
	return m, true
}

// maxFiles bounds the files whose tables are looked for by mapping.
const maxFiles = 1 << 14

// file returns the file of a mapping, for unwinding.
func (s *Stage) file(pid int, m *space.Mapping) *unwind.File {
	if f := s.files[m.File]; f != nil {
		return f
	}
	if len(s.files) >= maxFiles {
		clear(s.files)
	}
	f, mapped := m.File, *m
	// A build ID alone is what a file says of itself.
	key := fmt.Sprintf("%s:%d:%d:%s:%s", f.Dev, f.Inode, f.Generation, f.BuildID.Hex(), f.Name)
	if f.Kind == procmap.VDSO {
		key = "vdso"
	}
	first, err := s.opt.Open(pid, &mapped)
	if err != nil {
		return nil // another process may have it, and be there still
	}
	var debug func() (*unwind.Binary, error)
	if s.opt.Debug != nil {
		debug = func() (*unwind.Binary, error) { return s.opt.Debug(pid, &mapped) }
	}
	out := s.unwinder.File(unwind.Source{Debug: debug, Key: key, Name: f.Name, Open: func() (*unwind.Binary, error) {
		if b := first; b != nil {
			first = nil
			return b, nil
		}
		return s.opt.Open(pid, &mapped)
	}})
	s.files[f] = out
	return out
}
