package follow

import (
	"slices"

	"ustack/filemap/unwind/table"
)

// dwarf are the numbers that DWARF has for the registers of instructions (psABI of x86-64, figure 3.36).
var dwarf = [16]uint8{0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}

// Forward returns an Answer whose Root says only that all paths end the thread. It follows the code from an instruction on until it returns. after: a call before
// the instruction has returned; else the thread is before it. spent is how many
// instructions that were.
func Forward(c Code, addr uint64, after bool, most int) (a Answer, spent int) {
	w := walk{code: c, left: min(most, MaxInstructions)}
	var f finds
	w.returned = func(s *state, at uint64, taken int64) {
		switch r, is := f.returns(c, s, at, taken); {
		case is:
			w.exits++
		case r == nil:
			w.open++
		default:
			f.add(r)
		}
	}
	if after && c.Begins(addr) {
		return Answer{Why: neverReturns}, 0
	}
	w.doubt = after && w.doubtful(addr)
	w.run(point{addr: addr, state: begin(after), fell: after})
	a.Doubt = w.doubt
	switch {
	case w.disagree || f.differ:
		a.Why = disagreement
	case f.first == nil && w.exits > 0 && w.open == 0 && w.dead == 0:
		a.Root = true
	case f.first == nil && w.open == 0:
		a.Why = neverReturns
	case f.first == nil:
		a.Why = notKnown
	case !after && w.exits > 0 && afterSystemCall(c, addr):
		a.Why = twoThreads
	default:
		a.Rules, a.Also = f.first, f.also
	}
	return a, w.instructions
}

// afterSystemCall reports whether an instruction follows a system call.
func afterSystemCall(c Code, addr uint64) bool {
	b := c.At(addr - 2)
	return len(b) >= 2 && b[0] == 0x0f && b[1] == 0x05
}

// finds are the rules of all returns.
type finds struct {
	first  *table.Rules
	also   table.Rule
	differ bool
}

// add adds the rules of one return.
func (f *finds) add(r *table.Rules) {
	switch {
	case f.first == nil:
		f.first = r
		return
	case sameBase(f.first, r):
	case f.first.Base.Kind == table.IsRegister && r.Base.Kind == table.IsRegister && f.first.Base.Reg != r.Base.Reg:
		if f.also.Kind != table.Unsaid && f.also != r.Base {
			f.differ = true
		}
		f.also = r.Base
		r = nil // what it counts from is another register
	default:
		f.differ = true
	}
	if r == nil {
		return
	}
	for i := range dwarf {
		if (kept|1<<rsp)>>i&1 == 1 && !slices.Equal(ruleOf(f.first, dwarf[i]), ruleOf(r, dwarf[i])) {
			setRule(f.first, table.Rule{Kind: table.Undefined, Of: dwarf[i]})
		}
	}
}

func sameBase(a, b *table.Rules) bool {
	return a.Base == b.Base && slices.EqualFunc(a.Expressions, b.Expressions, slices.Equal[[]byte])
}

// ruleOf returns the rule of a register, if there is one.
func ruleOf(r *table.Rules, of uint8) []table.Rule {
	i := slices.IndexFunc(r.Others, func(x table.Rule) bool { return x.Of == of })
	if i < 0 {
		return nil
	}
	return r.Others[i : i+1]
}

// setRule sets the rule of a register.
func setRule(r *table.Rules, x table.Rule) {
	if have := ruleOf(r, x.Of); have != nil {
		have[0] = x
		return
	}
	r.Others = append(r.Others, x)
	for i := len(r.Others) - 1; i > 0 && r.Others[i-1].Of > x.Of; i-- { // the others are in order
		r.Others[i-1], r.Others[i] = r.Others[i], r.Others[i-1]
	}
}

// returns returns the rules of the place from which a path has come to a return, or to an
// address that a table describes; root: nothing has called that one. They are nil if
// the stack pointer is not known there. taken are bytes of arguments.
func (f *finds) returns(c Code, s *state, at uint64, taken int64) (r *table.Rules, root bool) {
	frame := s.regs[rsp].plus(8)
	regs := s.regs
	if at != 0 {
		d := c.Described(at)
		if d.Return.Kind == table.Undefined {
			return nil, true
		}
		base := slices.Index(dwarf[:], d.Base.Reg)
		if d.Base.Kind != table.IsRegister || base < 0 || d.Return != (table.Rule{Kind: table.At, Of: d.Return.Of, Reg: d.Return.Reg, N: -8}) || d.Signal || d.Few {
			return nil, false
		}
		frame = s.regs[base].plus(d.Base.N)
		for _, o := range d.Others {
			if i := slices.Index(dwarf[:], o.Of); i >= 0 {
				regs[i] = value{}
				if o.Kind == table.At {
					regs[i] = s.load(frame.plus(o.N))
				}
			}
		}
	}
	r = &table.Rules{Return: table.Rule{Kind: table.At, Of: 16, N: -8}}
	frame, ok := place(r, s, frame, at == 0, taken)
	if !ok {
		return nil, false
	}
	switch frame.sort {
	case initial:
		r.Base = table.Rule{Kind: table.IsRegister, Reg: dwarf[frame.reg], N: frame.n}
	case loaded:
		r.Base = table.Rule{Kind: table.IsExpression}
		r.Expressions = [][]byte{loadedExpression(frame)}
	default:
		return nil, false
	}
	keepOthers(r, frame, &regs)
	return r, false
}

// place returns the end of the frame whose return address lies before the place that
// the stack pointer leads to; code can have moved it there before it returned. Then, and
// if arguments are taken off the stack, the caller's stack pointer gets a rule.
func place(r *table.Rules, s *state, frame value, last bool, taken int64) (value, bool) {
	v := s.load(frame.plus(-8))
	switch {
	case v.sort == deep && frame.sort == loaded:
	case v.sort == loaded && v.n == 0 && frame.sort == initial && frame.reg == v.reg && v.off == frame.n-8:
	case v.sort == loaded && v.n == 0 && last:
		to := table.Rule{Kind: table.Undefined, Of: dwarf[rsp]}
		if frame.sort == initial && frame.reg == v.reg {
			to = table.Rule{Kind: table.Is, Of: dwarf[rsp], N: frame.n + taken - v.off - 8}
		}
		setRule(r, to)
		return value{sort: initial, reg: v.reg, n: v.off + 8}, true
	default:
		return value{}, false
	}
	if taken != 0 {
		setRule(r, table.Rule{Kind: table.Is, Of: dwarf[rsp], N: taken})
	}
	return frame, true
}

// loadedExpression is a loaded value as an expression of DWARF 5, 2.5: DW_OP_breg,
// DW_OP_deref, DW_OP_consts, DW_OP_plus.
func loadedExpression(v value) []byte {
	b := appendSigned([]byte{0x70 + dwarf[v.reg]}, v.off)
	b = appendSigned(append(b, 0x06, 0x11), v.n)
	return append(b, 0x22)
}

// appendSigned appends a number as signed LEB128.
func appendSigned(b []byte, n int64) []byte {
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if n == 0 && low&0x40 == 0 || n == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

// keepOthers adds the rules of the registers that functions must keep.
func keepOthers(r *table.Rules, frame value, regs *[16]value) {
	for i, v := range regs {
		if kept>>i&1 == 0 {
			continue
		}
		x := table.Rule{Kind: table.Undefined, Of: dwarf[i]}
		switch {
		case v == value{sort: initial, reg: uint8(i)}:
			continue
		case v.sort == initial:
			x.Kind, x.Reg, x.N = table.IsRegister, dwarf[v.reg], v.n
		case v.sort == loaded && v.n == 0 && frame.sort == initial && frame.reg == v.reg:
			x.Kind, x.N = table.At, v.off-frame.n
		case v.sort == loaded && v.n == 0:
			x.Kind, x.Reg, x.N = table.AtRegister, dwarf[v.reg], v.off
		case v.sort == deep && frame.sort == loaded && frame.reg == v.reg && frame.off == v.off:
			x.Kind, x.N = table.At, v.n-frame.n
		}
		setRule(r, x)
	}
	r.Plain = r.Base.Kind == table.IsRegister && !slices.ContainsFunc(r.Others, func(o table.Rule) bool { return o.Kind != table.At })
}
