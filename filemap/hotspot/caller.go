package hotspot

import (
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// The frame of the interpreter, in words from what rbp points to: the caller's rbp and the
// return address, and below (frame_x86.hpp).
const (
	wordSize = 8
	senderSP = -1 // where the caller's frame ends
	lastSP   = -2
	methodAt = -3
	bcpAt    = -8 // where in the bytecodes it is
	// callWrapper and what is below are in the frame of the stub by which the virtual
	// machine calls Java (generate_call_stub in stubGenerator_x86_64.cpp).
	callWrapper                                      = -6
	savedRBX, savedR12, savedR13, savedR14, savedR15 = -7, -8, -9, -10, -11
)

// DWARF numbers of registers.
const (
	rbx, rbp, rsp = 3, unwind.AMD64FP, unwind.AMD64SP
	r12           = 12
)

// View is a Machine at the time of a stack, which was taken between two times. It
// implements unwind.Runtime.
type View struct {
	m        *Machine
	from, to tracefs.Time
}

// At returns the Machine at a time.
func (x *Machine) At(from, to tracefs.Time) *View { return &View{x, from, to} }

// Caller implements unwind.Runtime.
func (v *View) Caller(pc uint64, regs *unwind.Registers, stack unwind.Words) (c unwind.Called) {
	x := v.m
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used = max(x.used, v.to)
	switch {
	case v.from < x.opened:
		x.count.Fresh.Add(1)
	case pc == x.callStub:
		c = v.entry(regs, stack)
	case pc >= x.interpreter[0] && pc < x.interpreter[1]:
		c = v.interpreted(regs, stack)
	default:
		c = v.compiled(pc, regs, stack)
	}
	if c.Known {
		x.count.Frames.Add(1)
	}
	return c
}

// contradiction is for a frame that cannot be.
func contradiction(addr uint64, detail string) unwind.Called {
	return unwind.Called{Known: true, End: unwind.End{Why: unwind.Contradiction, Addr: addr, Detail: detail}}
}

// words reads words relative to an address.
type words struct {
	stack unwind.Words
	base  uint64
	end   unwind.End
	bad   bool
}

func (w *words) at(n int) uint64 {
	if w.bad {
		return 0
	}
	v, end, ok := w.stack.Word(w.base + uint64(n*wordSize))
	if !ok {
		w.end, w.bad = end, true
	}
	return v
}

// framed returns what is read of a frame by its rbp.
func framed(regs *unwind.Registers, stack unwind.Words) (w words, c unwind.Called, ok bool) {
	fp, ok := regs.Get(rbp)
	if !ok {
		return w, unwind.Called{Known: true, End: unwind.End{Why: unwind.UnknownRegister, Register: rbp}}, false
	}
	if sp, ok := regs.Get(rsp); fp%wordSize != 0 || ok && (fp < sp || fp-sp > maxFrame) {
		return w, contradiction(fp, "the frame pointer of Java code does not point to its frame"), false
	}
	return words{stack: stack, base: fp}, c, true
}

// entry is the frame of the stub by which the virtual machine calls Java.
func (v *View) entry(regs *unwind.Registers, stack unwind.Words) unwind.Called {
	w, c, ok := framed(regs, stack)
	if !ok {
		return c
	}
	var next unwind.Registers
	for reg, at := range map[uint8]int{rbx: savedRBX, r12: savedR12, r12 + 1: savedR13, r12 + 2: savedR14, r12 + 3: savedR15, rbp: 0} {
		next.Set(reg, w.at(at))
	}
	c = unwind.Called{Known: true, To: w.at(1), OK: !w.bad, End: w.end, Code: v.m.names.stub("call_stub")}
	next.Set(rsp, w.base+2*wordSize)
	*regs = next
	return c
}

// interpreted is a frame of the interpreter.
func (v *View) interpreted(regs *unwind.Registers, stack unwind.Words) unwind.Called {
	w, c, ok := framed(regs, stack)
	if !ok {
		return c
	}
	method, at, sender := w.at(methodAt), w.at(bcpAt), w.at(senderSP)
	to, fp := w.at(1), w.at(0)
	c = unwind.Called{Known: true, To: to, OK: !w.bad, End: w.end}
	if w.bad {
		return c
	}
	if sender%wordSize != 0 || sender < w.base+2*wordSize || sender-w.base > maxFrame {
		return contradiction(sender, "a frame of the interpreter does not end in the stack")
	}
	m, state := v.m.method(method, v.from, v.to)
	if m == nil {
		v.m.count.Unread.Add(1)
		return unwind.Called{}
	}
	if !m.holds(at) {
		return contradiction(method, "a frame of the interpreter has no method")
	}
	if state == proven {
		c.Code = v.m.names.interpreted(m.name, m.place(at))
	} else {
		v.m.count.Unnamed.Add(1)
	}
	var next unwind.Registers
	next.Set(rsp, sender)
	next.Set(rbp, fp)
	*regs = next
	return c
}

// holds reports whether a pointer is to a bytecode of a method; a native one has none.
func (m *method) holds(bcp uint64) bool {
	return m.native || bcp >= m.code[0] && bcp < m.code[1]
}

// place is the index of a bytecode, below 0 if there is none.
func (m *method) place(bcp uint64) int {
	if m.native {
		return -1
	}
	return int(bcp - m.code[0])
}

// compiled is a frame of compiled code, or of a stub.
func (v *View) compiled(pc uint64, regs *unwind.Registers, stack unwind.Words) (c unwind.Called) {
	x := v.m
	k := x.find(pc)
	if k == nil {
		x.count.Fresh.Add(1)
		return c
	}
	if s := x.prove(k, v.from, v.to); s != proven {
		x.count.of(s).Add(1)
		return c
	}
	if !k.has(pc) {
		x.count.Fresh.Add(1)
		return c
	}
	sp, ok := regs.Get(rsp)
	if !ok || k.frameSize < 2 {
		return unwind.Called{Known: true, End: unwind.End{Why: unwind.NoInformation, Detail: "code of the virtual machine without a frame"}}
	}
	place := pc
	if k.kind == compiled && (pc == k.nm.deopt || pc == k.nm.deoptMH) { // it will go on in the interpreter
		var end unwind.End
		if place, end, ok = stack.Word(sp + uint64(k.nm.origPC)); !ok {
			return unwind.Called{Known: true, End: end}
		}
	}
	at := x.codeAt(k, place)
	switch {
	case at == nil:
		x.count.Unread.Add(1)
		return c
	case !at.calls:
		return contradiction(pc, "no call of Java code returns there")
	}
	w := words{stack: stack, base: sp + uint64(k.frameSize)*wordSize}
	fp, to := w.at(-2), w.at(-1)
	var next unwind.Registers
	next.Set(rsp, w.base)
	next.Set(rbp, fp)
	*regs = next
	return unwind.Called{Known: true, To: to, OK: !w.bad, End: w.end, Code: at.function}
}
