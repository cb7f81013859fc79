package sums

import (
	"ustack/filemap"
	"ustack/filemap/hotspot"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/filemap/whole"
	"ustack/tracefs"
)

// made is the code that programs have made while they run.
//
// It is proven as elsewhere (whole.Runtimes): by the memory of the process, which must be the same
// before and after the wait ended.
type made struct {
	memory    *procmem.Reader
	runtimes  *whole.Runtimes
	last      uint64 // number of what a process runs
	functions map[*filemap.Code]function
	numbers   uint64 // of functions so far
}

// function is a function of such code.
type function struct {
	memory *filemap.Memory
	number uint64 // that no other function has, or had
}

// maxFunctions bounds the functions that are kept.
const maxFunctions = 1 << 14

// newMade returns what knows no such code yet. names: functions are wanted.
func newMade(memory *procmem.Reader, opener *whole.Opener, names bool) made {
	opt := whole.RuntimeOptions{Memory: memory, Open: opener.Open, Now: space.Monotonic}
	if names {
		opt.Names = hotspot.NewNames()
	}
	return made{memory: memory, runtimes: whole.NewRuntimes(opt), functions: make(map[*filemap.Code]function)}
}

// prepare looks at a process whose stacks are unwound for the first time: code that it has made counts
// only from when it is known on.
func (m *made) prepare(p *program, pid int) {
	if p.walked.runs == 0 {
		m.runtimes.Prepare(m.runs(p, pid))
	}
}

// at returns what knows the code that a program has made, for a wait that ended at a time.
func (m *made) at(p *program, pid int, t tracefs.Time) unwind.Runtime {
	return m.runtimes.At(m.runs(p, pid), t, t)
}

// runs is a program as a process runs it.
func (m *made) runs(p *program, pid int) *whole.Runs {
	if p.walked.runs == 0 {
		m.last++
		p.walked.runs = m.last
	}
	return &whole.Runs{PID: pid, Began: tracefs.Time(p.walked.runs), Library: func() *space.Mapping {
		for i := range p.code {
			if c := &p.code[i]; c.Perms&procmap.Exec != 0 && whole.IsMachine(c.Kind, c.Name) {
				return mappingOf(c)
			}
		}
		return nil
	}}
}

// function returns a function as stacks have it.
func (m *made) function(c *filemap.Code) function {
	f, ok := m.functions[c]
	if !ok {
		if len(m.functions) >= maxFunctions {
			m.clear()
		}
		m.numbers++
		f = function{&filemap.Memory{Name: "[anon]", Exec: true, Code: c}, m.numbers}
		m.functions[c] = f
	}
	return f
}

// clear forgets the functions.
func (m *made) clear() { clear(m.functions) }
