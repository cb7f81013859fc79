package unwind

import "ustack/filemap/unwind/table"

// byRules finds the return address and registers of the caller by a table.
func (w *walker) byRules(s *step) (to uint64, ok bool) {
	r := s.rules
	if r.Return.Kind == table.Undefined {
		w.end = End{Why: Root}
		return 0, false
	}
	base, ok := w.base(r)
	if !ok || !w.rise(base, r.Signal) {
		return 0, false
	}
	if to, ok = w.value(r, &r.Return, base); !ok {
		return 0, false
	}
	if r.Signed {
		to = w.strip(to)
	}
	if r.Plain && !w.exact {
		w.restorePlain(r, base)
	} else {
		w.restore(r, base, w.exact && s.leaving)
	}
	return to, true
}

// strip takes the signature off a return address (AADWARF64, 4.4).
func (w *walker) strip(addr uint64) uint64 {
	mask := w.in.AddressBits
	if mask == 0 {
		mask = 1<<48 - 1
	}
	return addr & mask
}

// base finds the canonical frame address.
func (w *walker) base(r *table.Rules) (base uint64, ok bool) {
	switch r.Base.Kind {
	case table.IsRegister, table.AtRegister:
		v, ok := w.regs.Get(r.Base.Reg)
		if !ok {
			w.end = End{Why: UnknownRegister, Register: r.Base.Reg}
			return 0, false
		}
		v += uint64(r.Base.N)
		if r.Base.Kind == table.AtRegister {
			return w.word(v)
		}
		return v, true
	case table.IsExpression:
		return w.evaluate(r.Expressions[r.Base.N])
	}
	w.end = End{Why: NoInformation, Detail: "no rule for the frame's address"}
	return 0, false
}

// rise checks that stacks grow down: a frame begins above the one that it
// called. A signal handler can have its own stack.
func (w *walker) rise(base uint64, signal bool) bool {
	if signal {
		if w.signals++; w.signals > maxSignals {
			w.end = End{Why: Contradiction, Addr: base, Detail: "too many signal frames"}
			return false
		}
		w.floor = 0
		return true
	}
	// Code of arm64 that has saved nothing has a frame of no size.
	if base < w.floor || base == w.floor && !(w.arm64 && w.exact) || base%8 != 0 {
		w.end = End{Why: Contradiction, Addr: base, Detail: "the caller's frame is not above"}
		return false
	}
	w.floor = base
	return true
}

// value finds the caller's value of a register.
func (w *walker) value(r *table.Rules, x *table.Rule, base uint64) (v uint64, ok bool) {
	switch x.Kind {
	case table.At:
		return w.word(base + uint64(x.N))
	case table.Is:
		return base + uint64(x.N), true
	case table.In, table.IsRegister, table.AtRegister, table.Same:
		return w.byRegister(x)
	case table.AtExpression:
		addr, ok := w.evaluate(r.Expressions[x.N], base)
		if !ok {
			return 0, false
		}
		return w.word(addr)
	case table.IsExpression:
		return w.evaluate(r.Expressions[x.N], base)
	}
	w.end = End{Why: NoInformation, Detail: "no rule for the return address"}
	return 0, false
}

// byRegister follows the rules that begin with a register.
func (w *walker) byRegister(x *table.Rule) (v uint64, ok bool) {
	reg, n := x.Reg, uint64(x.N)
	switch x.Kind {
	case table.In:
		reg, n = uint8(x.N), 0
	case table.Same:
		reg, n = x.Of, 0
	}
	if v, ok = w.regs.Get(reg); !ok {
		w.end = End{Why: UnknownRegister, Register: reg}
		return 0, false
	}
	if x.Kind == table.AtRegister {
		return w.word(v + n)
	}
	return v + n, true
}

// restorePlain is restore for rules that do not depend on registers.
func (w *walker) restorePlain(r *table.Rules, base uint64) {
	known := w.keeps & w.regs.known
	if r.Few {
		known = 0
	}
	for i := range r.Others {
		x := &r.Others[i]
		v, ok := w.word(base + uint64(x.N))
		w.regs.v[x.Of] = v
		known &^= 1 << x.Of
		if ok {
			known |= 1 << x.Of
		}
	}
	if known>>w.spn&1 == 0 {
		w.regs.v[w.spn] = base
		known |= 1 << w.spn
	}
	w.regs.known = known
	if r.Signal {
		w.floor = w.regs.v[w.spn]
	}
}

// restore sets the registers to the caller's. One that cannot be found is
// unknown; that ends the stack only where it is needed. leaving: the function has
// only to take registers off the stack and return, so those whose place is below
// its stack pointer have their value again. Copies of stacks do not have that
// place, and tables often say nothing about ends of functions.
func (w *walker) restore(r *table.Rules, base uint64, leaving bool) {
	known := w.keeps
	if r.Few {
		known = 0
	}
	known &= w.regs.known
	found, lost := uint64(0), false
	sp, _ := w.regs.Get(w.spn)
	for i := range r.Others {
		x := &r.Others[i]
		if leaving && x.Kind == table.At && base+uint64(x.N) < sp {
			continue
		}
		known &^= 1 << x.Of
		if x.Kind == table.Undefined {
			lost = lost || x.Of == w.spn
			continue
		}
		if v, ok := w.value(r, x, base); ok {
			w.values[x.Of] = v
			found |= 1 << x.Of
		}
	}
	for i := range r.Others {
		if of := r.Others[i].Of; found>>of&1 == 1 {
			w.regs.v[of] = w.values[of]
		}
	}
	w.regs.known = known | found
	if found>>w.spn&1 == 0 && !lost {
		w.regs.Set(w.spn, base)
	}
	if r.Signal {
		w.floor, _ = w.regs.Get(w.spn)
	}
}
