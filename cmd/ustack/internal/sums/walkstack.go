package sums

import (
	"encoding/binary"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// attributed returns what was unwound, with the files of its frames.
func (w *walks) attributed(p *program, wait *bpffutex.Wait, end *unwind.End) *resolve.Stack {
	stop := unwind.StopOf(end.Why)
	more := wait.Stack[w.beyond(p, wait, stop, end.Addr):]
	if len(more) > 0 {
		stop = tracefs.NoStop
	}
	key := w.key(stop)
	if s := w.files.stacks.get(p, key, false); s != nil && len(more) == 0 {
		return s
	}
	s := &w.files.work
	*s = resolve.Stack{Stock: wait.Cut && len(more) > 0, Frames: s.Frames[:0], Attributions: s.Attributions[:0]}
	for i := range w.frames {
		f := &w.frames[i]
		frame := tracefs.Frame{Addr: f.PC, HasAddr: true, Form: tracefs.FormPlain}
		frame.SetUnwound(unwind.HowOf(f.How), tracefs.NoStop)
		if i == len(w.frames)-1 {
			frame.SetUnwound(unwind.HowOf(f.How), stop)
		}
		o := w.attribution(p, f.PC)
		if f.Code != nil && o.Reason == filemap.Anonymous {
			o.Memory = w.made.function(f.Code).memory
		}
		s.Frames, s.Attributions = append(s.Frames, frame), append(s.Attributions, o)
	}
	if len(more) > 0 {
		w.files.kernel(s, wait, more)
		return s
	}
	return w.files.stacks.put(p, key, false, s)
}

// key is what was unwound, in a form that the kernel's stacks do not have: their bytes are a multiple
// of 8. Code that the process has made can be another function later.
func (w *walks) key(stop tracefs.Stop) []byte {
	w.raw = append(w.raw[:0], byte(stop), byte(len(w.frames)))
	for i := range w.frames {
		w.raw = binary.NativeEndian.AppendUint64(w.raw, w.frames[i].PC)
	}
	for i := range w.frames {
		w.raw = append(w.raw, byte(w.frames[i].How))
	}
	for i := range w.frames {
		if c := w.frames[i].Code; c != nil {
			w.raw = binary.NativeEndian.AppendUint64(append(w.raw, byte(i)), w.made.function(c).number)
		}
	}
	for len(w.raw)%8 != 1 {
		w.raw = append(w.raw, 0)
	}
	return w.raw
}

// address returns the attribution of an address that the kernel found for a wait. Nil knows none.
func (w *walks) address(p *program, wait *bpffutex.Wait, addr uint64) resolve.Attribution {
	if w == nil || !w.known(p, wait) {
		return resolve.Unnamed(filemap.NoAddressSpace)
	}
	return w.attribution(p, addr)
}

// attribution returns the attribution of a frame. Code that can be written has no file: it need not
// be that of the file, and is not among the pages of code whose number is compared.
func (w *walks) attribution(p *program, pc uint64) resolve.Attribution {
	switch m := p.at(pc); {
	case m == nil, m.Kind.HasFile() && m.Perms&procmap.Write != 0:
		return resolve.Unnamed(filemap.NoAddressSpace)
	case m.Kind.HasFile():
		return w.files.mapped(m, pc)
	case m.Kind == procmap.VDSO || m.Kind == procmap.Special:
		return resolve.Unnamed(filemap.VDSO)
	}
	return resolve.Unnamed(filemap.Anonymous)
}

// beyond returns where the kernel's frames begin that it found by frame pointers where the tables
// end, the number of all if there are none: see whole.Stage. Both must agree so far.
func (w *walks) beyond(p *program, wait *bpffutex.Wait, stop tracefs.Stop, addr uint64) int {
	kernel, none := wait.Stack, len(wait.Stack)
	switch stop {
	case tracefs.AtCopy, tracefs.AtFile:
		for i := range w.frames {
			if i >= len(kernel) || !p.same(&kernel[i], w.frames[i].PC) {
				return none
			}
		}
		return len(w.frames)
	case tracefs.AtNoMap, tracefs.AtContradiction:
		next := 0 // of the unwound frames
		for k := range kernel {
			if k > 0 && p.same(&kernel[k], addr) {
				return k
			}
			for next < len(w.frames) && !p.same(&kernel[k], w.frames[next].PC) {
				next++
			}
			if next == len(w.frames) {
				return none
			}
			next++
		}
	}
	return none
}
