package phrase

import (
	"ustack/filemap/symbol"
	"ustack/render/stackset"
)

// Slept returns the frame that names the call in which a thread sleeps, and its name: the
// innermost frame of the stack with which it left its CPU, but for those by which the C
// library makes all of its calls. The name is a function, or a place in a file. ok is false
// if the frame has neither.
func Slept(s *stackset.Stack) (f *stackset.Frame, name string, ok bool) {
	if s == nil {
		return nil, "", false
	}
	const most = 2 // frames of the C library's own
	i := 0
	for i < most && i+1 < len(s.Frames) && makesCalls(s.Frames[i].Name) {
		i++
	}
	f = &s.Frames[i]
	switch {
	case f.Name != nil && f.Name.Reason == symbol.NoReason:
		return f, Printable(f.Name.Function), true
	case f.File == nil:
		return nil, "", false
	}
	return f, Frame(f), true
}

// makesCalls reports whether a function makes calls that its callers choose: syscall(2), and
// since version 2.41 all calls of glibc that a thread can be cancelled in.
func makesCalls(n *symbol.Name) bool {
	if n == nil || n.Reason != symbol.NoReason {
		return false
	}
	switch n.Function {
	case "syscall", "__syscall_cancel_arch", "__syscall_cancel_arch_start", "__internal_syscall_cancel", "__syscall_cancel":
		return true
	}
	return false
}
