package resolve

import "ustack/tracefs"

// stockFrames is how many frames the kernel takes at most when it takes a stack at the
// event (FTRACE_STACK_ENTRIES in kernel/trace/trace.h).
const stockFrames = 8

// KernelLimit is the word for a stack that ends where the kernel takes no more.
const KernelLimit = "kernel-limit"

// EndsEarly reports whether the outermost frames of a stack are missing, as far as that
// is known.
func (s *Stack) EndsEarly() bool {
	if s.Cut {
		return true
	}
	n := len(s.Frames)
	if n == 0 {
		return false
	}
	_, stop := s.Frames[n-1].Unwound()
	return stop != tracefs.NoStop && stop != tracefs.AtRoot || AtLimit(s.Frames, s.Stock)
}

// AtLimit reports whether a stack, which the kernel took at the event if stock is set,
// ends where the kernel takes no more.
func AtLimit(frames []tracefs.Frame, stock bool) bool {
	last := len(frames) - 1
	if !stock || last+1 < stockFrames || frames[last].Followed() {
		return false
	}
	n := 0
	for i := range frames {
		if !frames[i].Inferred() { // which an earlier run has put there
			n++
		}
	}
	return n == stockFrames
}
