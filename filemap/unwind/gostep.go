package unwind

// byGo finds the caller of Go's code: its frame has a known size, and no caller
// has registers to keep but the frame pointer, which is saved below the return
// address (amd64) or below the frame (arm64).
func (w *walker) byGo(s *step) (to uint64, ok bool) {
	if s.goPlace.Switches && s.goPlace.Top && !w.exact { // after its switch: nothing is above
		w.end = End{Why: Root}
		return 0, false
	}
	if s.goPlace.Switches {
		w.end = End{Why: Switch, Detail: "Go goes from one stack to another"}
		return 0, false
	}
	sp, ok := w.regs.Get(w.spn)
	if !ok {
		w.end = End{Why: UnknownRegister, Register: w.spn}
		return 0, false
	}
	size := s.goPlace.Frame
	base := sp + size
	if !w.arm64 {
		base += 8
	}
	if !w.rise(base, false) {
		return 0, false
	}
	var link Registers
	switch {
	case !w.arm64:
		to, ok = w.word(base - 8)
	case size > 0:
		to, ok = w.word(sp)
	default:
		if to, ok = w.regs.Get(ARM64LR); !ok {
			w.end = End{Why: UnknownRegister, Register: ARM64LR}
		}
		link = w.regs // the frame pointer is still the caller's
	}
	if !ok {
		return 0, false
	}
	if s.goPlace.Top && !w.handled(to) {
		w.end = End{Why: Root}
		return 0, false
	}
	w.regs.known = 0
	if fp, ok := link.Get(w.fp); ok {
		w.regs.Set(w.fp, fp)
	}
	w.regs.Set(w.spn, base)
	return to, true
}

// handled reports whether a signal handler returns to an address: Go's handler
// is the top of its stack, and yet the kernel has put it there.
func (w *walker) handled(addr uint64) bool {
	p, ok := w.find(addr)
	return ok && p.file != nil && p.file.step(p.offset, false).returned
}
