package unwind

import "ustack/filemap/unwind/table"

// byFramePointer finds the caller by the record that the frame pointer points
// to: the caller's frame pointer, and the return address after it (psABI of
// x86-64, 3.2.2; AAPCS64, 6.4.6).
func (w *walker) byFramePointer() (to uint64, ok bool) {
	fp, ok := w.regs.Get(w.fp)
	if !ok {
		w.end = End{Why: UnknownRegister, Register: w.fp}
		return 0, false
	}
	if fp == 0 {
		w.end = End{Why: Root}
		return 0, false
	}
	const record = 16
	if fp%8 != 0 || fp < w.floor || fp > ^uint64(0)-record {
		w.end = End{Why: Contradiction, Addr: fp, Detail: "the frame pointer does not point to the stack"}
		return 0, false
	}
	above, ok := w.word(fp)
	if !ok {
		return 0, false
	}
	if to, ok = w.word(fp + 8); !ok {
		return 0, false
	}
	if w.arm64 {
		to = w.strip(to)
	}
	if w.exact && w.place.file != nil && !w.isSetUp(to) {
		w.end = End{Why: NoInformation, Detail: "no table, and it is not sure that this frame has a frame pointer"}
		return 0, false
	}
	w.floor = fp + record
	w.regs.known = 0
	w.regs.Set(w.fp, above)
	if !w.arm64 { // there the record is at the bottom of the frame
		w.regs.Set(w.spn, fp+record)
	}
	return to, true
}

// bySignal reads the registers that the kernel kept: the frame of rt_sigreturn.
func (w *walker) bySignal() (to uint64, ok bool) {
	sp, ok := w.regs.Get(w.spn)
	if !ok {
		w.end = End{Why: UnknownRegister, Register: w.spn}
		return 0, false
	}
	if !w.rise(sp, true) {
		return 0, false
	}
	var regs Registers
	if w.arm64 {
		ok = w.signalARM64(sp, &regs)
	} else {
		ok = w.signalAMD64(sp, &regs)
	}
	if !ok {
		return 0, false
	}
	pc := uint8(AMD64PC)
	if w.arm64 {
		pc = ARM64PC
	}
	to, _ = regs.Get(pc)
	w.regs = regs
	w.floor, _ = regs.Get(w.spn)
	return to, true
}

// signalAMD64 reads struct rt_sigframe of arch/x86/include/asm/sigframe.h: the
// return address, which is gone, and struct ucontext, whose registers begin
// after flags, link and uc_stack.
func (w *walker) signalAMD64(sp uint64, regs *Registers) bool {
	const context = 40
	for i, reg := range [...]uint8{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16} {
		v, ok := w.word(sp + context + 8*uint64(i))
		if !ok {
			return false
		}
		regs.Set(reg, v)
	}
	return true
}

// signalARM64 reads struct rt_sigframe of arch/arm64/kernel/signal.c: siginfo of
// 128 bytes, and struct ucontext, whose registers begin after flags, link,
// uc_stack, the masks, padding and the address of the fault.
func (w *walker) signalARM64(sp uint64, regs *Registers) bool {
	const context = 128 + 176 + 8
	for i := range uint8(table.Registers) {
		v, ok := w.word(sp + context + 8*uint64(i))
		if !ok {
			return false
		}
		regs.Set(i, v)
	}
	return true
}
