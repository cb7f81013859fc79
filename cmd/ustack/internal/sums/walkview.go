package sums

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// same reports whether a frame of the kernel's is at an address.
func (p *program) same(f *bpffutex.Frame, addr uint64) bool {
	if f.IsAddress {
		return f.Number == addr
	}
	m := p.at(addr)
	return m != nil && !m.BuildID.IsZero() && filemap.BuildID(m.BuildID.Padded()) == f.BuildID && m.FileOffset(addr) == f.Number
}

// begins reports whether the kernel found the first frame of a wait at an address. It finds no build
// ID, and leaves all frames addresses, while the process changes what it has mapped; where it has found
// others, it has looked in the file of the first frame, too.
func (p *program) begins(wait *bpffutex.Wait, addr uint64) bool {
	if len(wait.Stack) == 0 || !p.same(&wait.Stack[0], addr) {
		return false
	}
	m := p.at(addr)
	if !wait.Stack[0].IsAddress || m == nil || m.BuildID.IsZero() {
		return true
	}
	return !slices.ContainsFunc(wait.Stack, func(f bpffutex.Frame) bool { return !f.IsAddress })
}

// at returns the mapping of code with an address, nil if there is none.
func (p *program) at(addr uint64) *procmap.Mapping {
	for _, list := range [...][]procmap.Mapping{p.code, p.other} {
		i, found := slices.BinarySearchFunc(list, addr, func(m procmap.Mapping, addr uint64) int {
			switch {
			case addr >= m.End:
				return -1
			case addr < m.Start:
				return 1
			}
			return 0
		})
		if found {
			return &list[i]
		}
	}
	return nil
}

// view is what a program has mapped as code. It implements unwind.Space.
type view struct {
	walks   *walks
	made    *made
	program *program
	pid     int
	at      tracefs.Time // of the stack
}

// Find implements unwind.Space.
func (v *view) Find(addr uint64) (out unwind.Mapping, ok bool) {
	m := v.program.at(addr)
	if m == nil {
		return out, false
	}
	out = unwind.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Exec: true}
	switch {
	case m.Kind == procmap.VDSO, m.Kind.HasFile() && m.Perms&procmap.Write == 0:
		out.File = v.walks.file(v.program, v.pid, m)
	case m.Kind == procmap.Anonymous:
		out.Runtime = v.made.at(v.program, v.pid, v.at)
	}
	return out, true
}

// file returns the file of a mapping, nil if it cannot be opened: the next stack tries again.
func (w *walks) file(p *program, pid int, m *procmap.Mapping) *unwind.File {
	if f := p.walked.tables[m.Start]; f != nil {
		return f
	}
	f := w.opener.File(w.unwinder, pid, mappingOf(m))
	if f == nil {
		return nil
	}
	if p.walked.tables == nil {
		p.walked.tables = make(map[uint64]*unwind.File)
	}
	p.walked.tables[m.Start] = f
	return f
}

// mappingOf returns a mapping as openers take it.
func mappingOf(m *procmap.Mapping) *space.Mapping {
	return &space.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Perms: m.Perms,
		File: &space.File{Name: m.Name, BuildID: m.BuildID, Inode: m.Inode, Dev: m.Dev, Generation: m.Generation, Kind: m.Kind}}
}
