package follow

import "ustack/filemap/callsite"

// Registers by their numbers in instructions.
const (
	rax = 0
	rbx = 3
	rsp = 4
	rbp = 5
)

// kept are the registers that functions must keep, as bits, without the stack pointer.
const kept = 1<<rbx | 1<<rbp | 0xf<<12

// sort is what is known of a value.
type sort uint8

const (
	unknown sort = iota
	number       // n
	initial      // what register reg was, plus n
	loaded       // the 8 bytes at what register reg was, plus off; plus n
	deep         // the 8 bytes at the loaded value
	fresh        // n from a stack pointer that was set by instruction off, to what is unknown
)

// value is a value in symbols.
type value struct {
	sort sort
	reg  uint8
	off  int64
	n    int64
}

// plus returns a value plus a number.
func (v value) plus(n int64) value {
	if v.sort == unknown || v.sort == deep && n != 0 {
		return value{}
	}
	v.n += n
	return v
}

// root returns what an address counts from.
func (v value) root() value {
	v.n = 0
	return v
}

// store is a place in memory, which counts from an initial or fresh value, and its value.
type store struct {
	root value
	at   int64
	v    value
}

// state is what is known before an instruction.
type state struct {
	regs   [16]value
	stores []store
	// framed: the frame pointer points to the frame of the function, whose record no
	// address changes that counts from another register.
	framed bool
}

// begin returns the state in which every register is what it was. after: a call has just
// returned, so those that functions need not keep are unknown.
func begin(after bool) (s state) {
	for i := range s.regs {
		if !after || i == rsp || kept>>i&1 == 1 {
			s.regs[i] = value{sort: initial, reg: uint8(i)}
		}
	}
	return s
}

// keep notes that 8 bytes at an address have a value.
func (s *state) keep(addr, v value) {
	if addr.sort != initial && addr.sort != fresh {
		return
	}
	out := s.stores[:0:0]
	for _, o := range s.stores {
		if o.root != addr.root() || o.at <= addr.n-8 || o.at >= addr.n+8 {
			out = append(out, o)
		}
	}
	if len(out) < maxStores {
		out = append(out, store{addr.root(), addr.n, v})
	}
	s.stores = out
}

// load returns the 8 bytes at an address.
func (s *state) load(addr value) value {
	if addr.sort == loaded {
		return value{sort: deep, reg: addr.reg, off: addr.off, n: addr.n}
	}
	if addr.sort != initial && addr.sort != fresh {
		return value{}
	}
	for _, o := range s.stores {
		switch {
		case o.root != addr.root():
			above := addr.sort == initial && addr.reg == rbp && addr.n >= 0
			if above && (o.root.sort == fresh || o.root.reg == rsp && o.at < 0) {
				continue // a frame pointer is above the stack pointer
			}
			if above && s.framed && o.root.reg != rsp {
				continue
			}
			if o.v.sort == initial && kept>>o.v.reg&1 == 1 {
				return value{} // it can be the same place
			}
		case o.at == addr.n:
			return o.v
		case o.at > addr.n-8 && o.at < addr.n+8:
			return value{}
		}
	}
	if addr.sort == fresh || addr.reg != rsp && addr.reg != rbp {
		return value{}
	}
	return value{sort: loaded, reg: addr.reg, off: addr.n}
}

// moveStack sets the stack pointer. What is below it is gone.
func (s *state) moveStack(to value) {
	s.regs[rsp] = to
	if to.root() != (value{sort: initial, reg: rsp}) || len(s.stores) == 0 {
		return
	}
	out := s.stores[:0:0]
	for _, o := range s.stores {
		if o.root != to.root() || o.at >= to.n {
			out = append(out, o)
		}
	}
	s.stores = out
}

func (s *state) set(reg uint8, v value) {
	if reg == rsp {
		s.moveStack(v)
	} else if reg < callsite.None {
		s.regs[reg] = v
	}
}

func (s *state) push(v value) {
	s.regs[rsp] = s.regs[rsp].plus(-8)
	s.keep(s.regs[rsp], v)
}

func (s *state) pop(reg uint8) {
	v := s.load(s.regs[rsp])
	s.moveStack(s.regs[rsp].plus(8))
	s.set(reg, v)
}

// called notes what a call changes.
func (s *state) called() {
	for i := range s.regs {
		if i != rsp && kept>>i&1 == 0 {
			s.regs[i] = value{}
		}
	}
}

// apply does what an instruction does that the next one follows.
func (s *state) apply(e *callsite.Effect) {
	for i := range s.regs {
		if e.Writes>>i&1 == 1 {
			s.set(uint8(i), value{})
		}
	}
	switch e.Op {
	case callsite.Push:
		switch {
		case e.From < callsite.None:
			s.push(s.regs[e.From])
		case e.To == callsite.None:
			s.push(value{sort: number, n: e.N})
		default:
			s.push(value{})
		}
	case callsite.Pop:
		s.pop(e.To)
	case callsite.Add:
		s.set(e.To, s.regs[e.From].plus(e.N))
	case callsite.Load:
		s.set(e.To, s.load(s.regs[e.From].plus(e.N)))
	case callsite.Store:
		s.keep(s.regs[e.To].plus(e.N), s.regs[e.From])
	case callsite.Number:
		s.set(e.To, value{sort: number, n: e.N})
	case callsite.LowByte:
		v := s.regs[e.To]
		v.n = v.n&^0xff | e.N
		if v.sort != number {
			v = value{}
		}
		s.set(e.To, v)
	case callsite.Exchange:
		a, b := s.regs[e.To], s.regs[e.From]
		s.set(e.To, b)
		s.set(e.From, a)
	case callsite.Leave:
		s.moveStack(s.regs[rbp])
		s.pop(rbp)
	}
	if s.regs[rsp].sort == unknown {
		s.regs[rsp] = value{sort: fresh, off: int64(e.Addr)}
	}
}
