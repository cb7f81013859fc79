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
	until tracefs.Time // the stack is of between at and then

	runtime unwind.Runtime
	looked  bool // for runtime
}

// code returns what knows the code that a virtual machine of the process makes, nil if there
// is none.
func (v *view) code() unwind.Runtime {
	if !v.looked {
		v.looked, v.runtime = true, v.s.runtimes.At(runsOf(v.pid, v.space, v.at), v.at, v.until)
	}
	return v.runtime
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
		m.Runtime = v.code()
	}
	return m, true
}

// maxFiles bounds the files whose tables are looked for by mapping.
const maxFiles = 1 << 14

// mappedFile is a file as a process has it mapped since a time. What is known of a file
// can be the name and the build ID alone, which any user can give another file, in a
// mount namespace of their own: so each process has its own, and those that are one by
// the open file share the tables.
type mappedFile struct {
	pid   int
	file  *space.File
	since tracefs.Time
}

// file is the file of a mapping, for unwinding.
func (s *Stage) file(pid int, m *space.Mapping) *unwind.File {
	key := mappedFile{pid, m.File, m.Since}
	if f := s.files[key]; f != nil {
		return f
	}
	if len(s.files) >= maxFiles {
		clear(s.files)
	}
	first, err := s.opt.Open(pid, m)
	if err != nil {
		return nil // another process may have it, and be there still
	}
	out := s.unwinder.File(sourceOf(s.unwinder, pid, *m, first, s.opt.Open, s.opt.Debug))
	s.files[key] = out
	return out
}

// File returns the file of a mapping for an Unwinder, nil if it cannot be opened now.
func (o *Opener) File(u *unwind.Unwinder, pid int, m *space.Mapping) *unwind.File {
	first, err := o.Open(pid, m)
	if err != nil {
		return nil
	}
	return u.File(sourceOf(u, pid, *m, first, o.Open, o.Debug))
}

// sourceOf is the source of a mapped file that is open. openFile and openDebug are as in Options.
func sourceOf(u *unwind.Unwinder, pid int, m space.Mapping, first *unwind.Binary, openFile func(int, *space.Mapping) (*unwind.Binary, error),
	openDebug func(*unwind.Binary, *space.File) (*unwind.Binary, error)) unwind.Source {
	f, identity := m.File, first.Identity
	key := fmt.Sprintf("%s:%s:%s", identity, f.BuildID.Hex(), f.Name)
	if u.Known(key) && first.Close != nil {
		first.Close()
		first = nil
	}
	open := func() (*unwind.Binary, error) {
		if b := first; b != nil {
			first = nil
			return b, nil
		}
		b, err := openFile(pid, &m)
		if err == nil && b.Identity != identity {
			b.Close()
			return nil, errOther
		}
		return b, err
	}
	debug := func() (*unwind.Binary, error) {
		b, err := open()
		if err != nil {
			return nil, err
		}
		defer b.Close()
		return openDebug(b, f)
	}
	if openDebug == nil {
		debug = nil
	}
	return unwind.Source{Key: key, Name: f.Name, Open: open, Debug: debug}
}
