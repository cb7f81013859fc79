// Package anoncode names code that lies in no file: code that programs make while
// they run, by the maps that they write for perf, and the vDSO, by its own symbol
// table.
package anoncode

import (
	"ustack/filemap"
	"ustack/filemap/hotspot"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/tracefs"
)

// Program is the program that a process ran at a time.
type Program struct {
	PID int
	// Began is when the program began to run, or was first seen. Exact: it did
	// not run before.
	Began tracefs.Time
	Exact bool
}

// since returns what reports whether memory was removed while the program ran, nil for a
// function that is nil.
func (p Program) since(removed func(pid int, addr uint64, from, to tracefs.Time) bool) removals {
	if removed == nil {
		return nil
	}
	return func(addr uint64, from, to tracefs.Time) bool { return removed(p.PID, addr, max(from, p.Began), to) }
}

// maps finds the perf map of a program that ran at t, nil if there is none.
type maps interface {
	find(p Program, t tracefs.Time) *perfMap
}

// Options configure an Attributor.
type Options struct {
	// Inner attributes stacks first; nil for none.
	Inner resolve.Attributor
	// Program returns the program of a stack.
	Program func(s *resolve.Query) (p Program, ok bool)
	// Directory and Processes have perf maps; nil for none.
	Directory *Directory
	Processes *Processes
	// Removed reports whether memory that a process had at an address was unmapped between
	// two times; nil if that is not known.
	Removed func(pid int, addr uint64, from, to tracefs.Time) bool
	// Machines has the functions of Java code, by stacks; nil for none.
	Machines *hotspot.Names
	// Keeper gets the names that frames have had; nil for none.
	Keeper *Keeper
	// Saved are the names that a Keeper got when the trace was made; nil for none.
	// Foreign reports whether a stack may be of another trace than they are.
	Saved   *Saved
	Foreign func(s *resolve.Query) bool
	// VDSO is the vDSO of the traced kernel, nil if it is not at hand, or not
	// known to be the same.
	VDSO *symbolize.Kernel
}

// Attributor names the frames that are in no file. It implements
// resolve.Attributor.
type Attributor struct {
	opt   Options
	maps  []maps
	known map[filemap.Memory]*filemap.Memory
	turns turns
	named []hotspot.Named // of the stack at hand, for the Keeper
}

// New returns an Attributor.
func New(opt Options) *Attributor {
	e := &Attributor{opt: opt, known: make(map[filemap.Memory]*filemap.Memory), turns: newTurns()}
	if opt.Directory != nil {
		e.maps = append(e.maps, opt.Directory)
	}
	if opt.Processes != nil {
		e.maps = append(e.maps, opt.Processes)
	}
	return e
}

// Attribute implements resolve.Attributor.
func (e *Attributor) Attribute(s *resolve.Query) {
	if e.opt.Inner != nil {
		e.opt.Inner.Attribute(s)
	}
	var of []*perfMap // the process's, once they are needed
	var removed removals
	asked, machine, turn := false, e.machine(s), e.turn(s)
	if KeepsNames && e.opt.Saved != nil && turn >= 0 {
		machine = e.opt.Saved.find(s, turn)
	}
	e.named = e.named[:0]
	for k := range s.Frames {
		o := &s.Attributions[k]
		if o.File != nil {
			continue
		}
		e.vdso(&s.Frames[k], s, k == 0 && !s.Continued, o)
		if o.Reason != filemap.Anonymous || o.Memory != nil && !o.Memory.Exec {
			continue
		}
		addr := s.Frames[k].Address(s.Text)
		c := codeOf(machine, k, addr)
		if c == nil {
			if !asked {
				of, removed = e.of(s)
				asked = true
			}
			c = find(of, s, k, removed)
		}
		if c != nil {
			o.Memory = e.memory(o.Memory, c)
			e.named = append(e.named, hotspot.Named{Frame: k, Addr: addr, Code: c})
		}
	}
	if KeepsNames && e.opt.Keeper != nil && turn >= 0 && len(e.named) > 0 {
		e.opt.Keeper.stack(s, turn, e.named)
	}
}

// turn numbers a stack among those of its thread with the same time, for the names that are
// kept. It is below 0 if there are none, and if it is not one stack of a known time.
func (e *Attributor) turn(s *resolve.Query) int {
	if !KeepsNames || e.opt.Keeper == nil && e.opt.Saved == nil || !s.Timed || s.Continued {
		return -1
	}
	if e.opt.Saved != nil && e.opt.Foreign(s) {
		return -1
	}
	return e.turns.next(s)
}

// SavedName is what the file of saved names is called, beside that of the mappings.
const SavedName = "names.txt"

// wide is where addresses begin that only 64-bit programs have. 32-bit programs
// have another vDSO, below.
const wide = 1 << 32

// vdsoName is the kernel's name of the vDSO.
const vdsoName = "[vdso]"

// vdso gives a frame in the vDSO its function.
func (e *Attributor) vdso(f *tracefs.Frame, s *resolve.Query, ran bool, o *resolve.Attribution) {
	if e.opt.VDSO == nil || o.Reason != filemap.VDSO || o.Memory == nil || o.Memory.Name != vdsoName || !o.HasOffset ||
		f.Form != tracefs.FormPlain || f.Address(s.Text)-o.Offset < wide {
		return
	}
	if c := e.opt.VDSO.Code(o.Offset, ran); c != nil {
		o.Memory = e.memory(o.Memory, c)
	}
}

// machine returns the functions of a stack that a virtual machine has.
func (e *Attributor) machine(s *resolve.Query) []hotspot.Named {
	if e.opt.Machines == nil || s.Continued || len(s.Frames) == 0 || !s.Frames[0].Followed() {
		return nil
	}
	at, ok := s.Exact()
	if !ok {
		return nil
	}
	return e.opt.Machines.Take(s.TID, at)
}

// codeOf returns the function of frame k, nil if it has none.
func codeOf(list []hotspot.Named, k int, addr uint64) *filemap.Code {
	for i := range list {
		if n := &list[i]; n.Frame == k && n.Addr == addr {
			return n.Code
		}
	}
	return nil
}

// of returns the maps of a stack's process, and what was removed of its memory.
func (e *Attributor) of(s *resolve.Query) (list []*perfMap, removed removals) {
	p, ok := e.opt.Program(s)
	if !ok {
		return nil, nil
	}
	for _, m := range e.maps {
		if m := m.find(p, s.Time); m != nil {
			list = append(list, m)
		}
	}
	return list, p.since(e.opt.Removed)
}

// find returns the function of a frame, nil if no map has it.
func find(of []*perfMap, s *resolve.Query, k int, removed removals) *filemap.Code {
	for _, m := range of {
		if c := m.code(s.Frames[k].Address(s.Text), k == 0 && !s.Continued, s.Time-stamp, removed); c != nil {
			return c
		}
	}
	return nil
}

// maxKnown bounds the memory that is kept.
const maxKnown = 1 << 16

// memory returns the Memory of a function.
func (e *Attributor) memory(in *filemap.Memory, c *filemap.Code) *filemap.Memory {
	key := filemap.Memory{Name: "[anon]", Exec: true, Code: c}
	if in != nil {
		key.Name = in.Name
	}
	m := e.known[key]
	if m == nil {
		if len(e.known) >= maxKnown {
			clear(e.known)
		}
		m = &key
		e.known[key] = m
	}
	return m
}
