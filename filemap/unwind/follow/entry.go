package follow

import (
	"ustack/filemap/unwind/table"
)

// Arrival is how a function gets from where it begins to one of its instructions.
type Arrival struct {
	// Rules are what holds at the instruction, nil if it is not reached, or in ways that
	// disagree.
	Rules *table.Rules
	// Pointer is another way to the end of the frame, by the frame pointer; it has no Kind
	// if there is none.
	Pointer table.Rule
	// Outermost: the function has made the frame pointer 0, as the first one of a thread does
	// (psABI of x86-64, 3.4.1).
	Outermost bool
	// Reached: there is a path. Open: there are paths that cannot be followed, so more
	// can be reached.
	Reached, Open bool
}

// From follows a function from where it begins to an instruction. after: a call
// before the instruction has returned.
func From(c Code, start, addr uint64, after bool, most int) (a Arrival, spent int) {
	w := walk{code: c, left: min(most, MaxInstructions), until: addr}
	differ := false
	w.arrive = func(s *state) {
		r := arrived(s, after)
		switch {
		case !a.Reached:
			a.Reached, a.Rules = true, r
			a.Outermost = s.regs[rbp] == (value{sort: number})
			if v := s.regs[rbp]; v.sort == initial && v.reg == rsp {
				a.Pointer = table.Rule{Kind: table.IsRegister, Reg: dwarf[rbp], N: 8 - v.n}
			}
		case r == nil || a.Rules == nil || !sameBase(a.Rules, r):
			differ = true
		}
	}
	w.returned = func(_ *state, described uint64, _ int64) {
		if described != 0 {
			w.open++
		}
	}
	p := point{addr: start, state: begin(false)}
	if start == addr {
		w.arrive(&p.state)
		return a, 0
	}
	w.run(p)
	a.Open = w.open > 0
	if differ || w.disagree {
		a.Rules, a.Open = nil, true
	}
	return a, w.instructions
}

// arrived returns the rules of an instruction that a path from the beginning of its
// function has come to. The frame ends 8 above what the stack pointer was there.
func arrived(s *state, after bool) *table.Rules {
	const frame = 8
	r := &table.Rules{Return: table.Rule{Kind: table.At, Of: 16, N: -8}}
	for _, reg := range [...]uint8{rsp, rbp, rbx, 12, 13, 14, 15, 10} {
		v := s.regs[reg]
		if after && reg == 10 {
			break
		}
		if v.sort == initial && v.reg == rsp {
			r.Base = table.Rule{Kind: table.IsRegister, Reg: dwarf[reg], N: frame - v.n}
			break
		}
	}
	if r.Base.Kind == table.Unsaid {
		return nil
	}
	regs := s.regs
	for i := range regs {
		for _, o := range s.stores {
			if o.root == (value{sort: initial, reg: rsp}) && o.v == (value{sort: initial, reg: uint8(i)}) {
				regs[i] = value{sort: loaded, reg: rsp, off: o.at}
			}
		}
		if kept>>i&1 == 1 && regs[i].sort == initial && regs[i] != (value{sort: initial, reg: uint8(i)}) {
			regs[i] = value{} // it counts from where the function began
		}
		if regs[i].sort == loaded && regs[i].n != 0 || regs[i].sort == deep {
			regs[i] = value{}
		}
	}
	keepOthers(r, value{sort: initial, reg: rsp, n: frame}, &regs)
	for i := range r.Others {
		if k := r.Others[i].Kind; k != table.At {
			r.Others[i] = table.Rule{Kind: table.Undefined, Of: r.Others[i].Of}
		}
	}
	r.Plain = false
	return r
}
