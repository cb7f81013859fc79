package unwind

import "ustack/filemap"

// Runtime finds the callers of code that a process has made, which no table describes.
type Runtime interface {
	// Caller finds the caller of code that has called another function, which returns to
	// pc. regs are the registers there, as far as they are known, and become the caller's.
	Caller(pc uint64, regs *Registers, stack Words) Called
}

// Words reads the stack, 8 bytes from an address on; if ok is false, end says why there
// are none.
type Words interface {
	Word(addr uint64) (v uint64, end End, ok bool)
}

// Called is what a Runtime knows of a frame.
type Called struct {
	// Known: it is code of the Runtime, as of the time of the stack. Else it is no frame,
	// and the stack ends before it.
	Known bool
	// Code is the function, nil if it is unknown.
	Code *filemap.Code
	// To is the return address of the caller. If OK is false there is none, and End says
	// why.
	To  uint64
	OK  bool
	End End
	// Base, if it is not 0, is where the frame ends; the record of the frame pointer is
	// below it. Else the caller's stack pointer says so.
	Base uint64
	// How is how the caller is found; Given stands for VirtualMachine.
	How How
}

// runtimeStep is the step of code of a Runtime.
var runtimeStep = step{kind: byRuntime, how: VirtualMachine}

// Word implements Words.
func (w *walker) Word(addr uint64) (v uint64, end End, ok bool) {
	v, ok = w.word(addr)
	return v, w.end, ok
}

// enterRuntime makes a return address into code of a Runtime the frame at hand.
func (w *walker) enterRuntime(to uint64, p place, interrupted bool) bool {
	if w.arm64 || interrupted {
		w.end = End{Why: NoMap, Addr: to, Detail: "code without a file was interrupted"}
		return false
	}
	w.after = w.regs
	if w.called = p.runtime.Caller(to, &w.after, w); !w.called.Known {
		w.end = End{Why: NoMap, Addr: to, Detail: "code without a file that is not proven"}
		return false
	}
	w.pc, w.place, w.exact, w.at = to, p, false, &runtimeStep
	return true
}

// frameRecord is the size of the caller's frame pointer and the return address.
const frameRecord = 16

// byRuntime finds the caller of code of a Runtime.
func (w *walker) byRuntime() (to uint64, ok bool) {
	if !w.called.OK {
		w.end = w.called.End
		return 0, false
	}
	base := w.called.Base
	if base == 0 {
		if base, ok = w.after.Get(w.spn); !ok {
			w.end = End{Why: UnknownRegister, Register: w.spn}
			return 0, false
		}
	} else if base-frameRecord < w.floor {
		w.end = End{Why: Contradiction, Addr: base - frameRecord, Detail: "the frame pointer does not point to the stack"}
		return 0, false
	}
	if !w.rise(base, false) {
		return 0, false
	}
	w.regs = w.after
	return w.called.To, true
}
