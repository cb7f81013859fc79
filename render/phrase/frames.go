package phrase

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/stackset"
	marks "ustack/tracefs/text"
)

// Frame returns one frame: a file and an offset in it, or why there is none. It
// is the one place that names a frame.
func Frame(f *stackset.Frame) string {
	if n := f.Name; n != nil && n.Reason == symbol.NoReason {
		if f.Inferred {
			return Printable(n.Function) + marks.InferredMark
		}
		return Function(n)
	}
	if f.File == nil && f.Reason == filemap.NoAddressSpace {
		return fmt.Sprintf("%#x", f.Address)
	}
	if f.File == nil {
		if f.Mapping != nil {
			return fmt.Sprintf("%s[+%#x] (%s)", Printable(path.Base(f.Mapping.Name)), f.Offset, f.Reason)
		}
		return fmt.Sprintf("%#x (%s)", f.Address, f.Reason)
	}
	name := fmt.Sprintf("%s+%#x", Printable(path.Base(f.File.Path)), f.Offset)
	if f.Inferred {
		name += marks.InferredMark
	}
	return name
}

// AppendFrame names a frame, and the function that was left out after it.
func AppendFrame(list []string, f *stackset.Frame) []string {
	list = append(list, Frame(f))
	if f.Skipped != nil {
		list = append(list, Skipped(f.Skipped))
	}
	return list
}

// Skipped names a function that was left out.
func Skipped(s *symbol.Skipped) string { return Printable(s.Name.Function) + marks.InferredMark }

// Function returns a frame's name: the functions inlined there, then the one
// that they are inlined in, each with its place in the source if it is known.
func Function(n *symbol.Name) string {
	var b strings.Builder
	for i := range n.Inlined {
		in := &n.Inlined[i]
		b.WriteString(Printable(in.Function) + source(in.File, in.Line) + " < ")
	}
	b.WriteString(Printable(n.Function))
	if n.File == "" {
		return b.String() + fmt.Sprintf("+%#x", n.Offset)
	}
	return b.String() + source(n.File, n.Line)
}

// source returns " FILE:LINE" without directories, "" if it is not known.
func source(file string, line int) string {
	if file == "" {
		return ""
	}
	return " " + Printable(path.Base(file)) + ":" + strconv.Itoa(line)
}

// MostFrames is how many frames of a stack stand in a line.
const MostFrames = 6

// Frames returns a stack in a line, innermost frame first.
func Frames(s *stackset.Stack) string {
	var out []string
	for i := range s.Frames {
		if i == MostFrames {
			out = append(out, "…")
			break
		}
		out = AppendFrame(out, &s.Frames[i])
	}
	if s.Cut && len(s.Frames) <= MostFrames {
		out = append(out, "…")
	}
	return strings.Join(out, " < ")
}

// Callers names the innermost frames outside of the C library and of libraries that lock by it,
// as the standard ones of C++ and Rust do: the function that takes the lock, and its callers.
// If there is nothing else, these libraries' functions are named.
func Callers(s *stackset.Stack) string {
	if out := callers(s, true); len(out) > 0 {
		return strings.Join(out, " < ")
	}
	if out := callers(s, false); len(out) > 0 {
		return strings.Join(out, " < ")
	}
	if len(s.Frames) > 0 {
		return Frame(&s.Frames[0])
	}
	return ""
}

// Leaves reports whether a stack has frames in files other than the C library's. What frame
// pointers led to is none.
func Leaves(s *stackset.Stack) bool {
	return s != nil && slices.ContainsFunc(s.Frames, func(f stackset.Frame) bool { return f.File != nil && !f.InLibc() })
}

// callers returns these frames; with plain, without those of the standard library.
func callers(s *stackset.Stack, plain bool) []string {
	const most = 3
	var out []string
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File == nil && f.Reason == filemap.NotCode && i > 0 {
			break // frame pointers led to data
		}
		if f.File == nil || !f.InLibc() {
			name, ok := f, true
			if plain {
				name, ok = withoutWrappers(f)
			}
			if plain && len(out) == 0 && i > 0 && !placed(f) {
				return nil // code that has no name is less than the library's
			}
			if ok {
				out = append(out, Frame(withoutParameters(name)))
			}
		}
		if f.Skipped != nil && filemap.CLibrary(f.Skipped.File.Path) == "" {
			out = append(out, Skipped(f.Skipped))
		}
		if len(out) >= most {
			out = out[:most]
			break
		}
	}
	return out
}

// placed reports whether a frame has a function or a file.
func placed(f *stackset.Frame) bool {
	return f.File != nil || f.Name != nil && f.Name.Reason == symbol.NoReason
}

// withoutWrappers returns a frame without the innermost functions of the standard library
// that are inlined there. ok is false if the frame is all of that library.
func withoutWrappers(f *stackset.Frame) (out *stackset.Frame, ok bool) {
	n := f.Name
	if n == nil || n.Reason != symbol.NoReason {
		return f, true
	}
	skip := 0
	for skip < len(n.Inlined) && wrapper(n.Inlined[skip].Function) {
		skip++
	}
	if skip == len(n.Inlined) && wrapper(n.Function) {
		return nil, false
	}
	if skip == 0 {
		return f, true
	}
	frame, name := *f, *n
	name.Inlined = n.Inlined[skip:]
	frame.Name = &name
	return &frame, true
}

// withoutParameters returns a frame whose functions have no long lists of parameters: in a
// line of 80 columns the caller says more.
func withoutParameters(f *stackset.Frame) *stackset.Frame {
	if f.Name == nil || f.Name.Reason != symbol.NoReason {
		return f
	}
	frame, name := *f, *f.Name
	name.Function = plainName(name.Function)
	name.Inlined = slices.Clone(name.Inlined)
	for i := range name.Inlined {
		name.Inlined[i].Function = plainName(name.Inlined[i].Function)
	}
	frame.Name = &name
	return &frame
}

// plainName returns the name of a C++ function with "(…)" for a long list of parameters.
func plainName(function string) string {
	const long = 16
	name, isConst := strings.CutSuffix(function, " const")
	if !strings.HasSuffix(name, ")") {
		return function
	}
	depth := 0
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			depth--
		}
		if depth > 0 {
			continue
		}
		if i == 0 || len(name)-i <= long {
			return function
		}
		if name = name[:i] + "(…)"; isConst {
			name += " const"
		}
		return name
	}
	return function
}

// wrappers begin the functions by which the standard libraries of C++ and Rust, Abseil,
// parking_lot, oneTBB and OpenJDK take and release locks, and by which Rust calls closures.
var wrappers = [...]string{
	"std::", "__gthread_", "__gnu_cxx::",
	"core::ops::", "core::ptr::", "core::mem::", "alloc::boxed::", "alloc::sync::", "alloc::rc::",
	"absl::Mutex::", "absl::MutexLock::", "absl::ReaderMutexLock::", "absl::WriterMutexLock::", "absl::ReleasableMutexLock::",
	"absl::CondVar::", "absl::base_internal::", "absl::synchronization_internal::", "AbslInternalPerThreadSem", "AbslInternalSpinLock",
	"parking_lot::", "parking_lot_core::", "lock_api::",
	"os::PlatformEvent::", "ObjectMonitor::", "ObjectSynchronizer::", "SharedRuntime::", "InterpreterRuntime::monitor", "Runtime1::monitor",
	"monitorenter", "monitorexit",
	"Parker::", "Unsafe_Park", "Unsafe_Unpark", "jdk.internal.misc.Unsafe.", "java.util.concurrent.locks.",
	"tbb::detail::r1::wait_on_address", "tbb::detail::r1::notify_by_address", "tbb::detail::d1::waitable_atomic<", "tbb::detail::d1::mutex::",
	"tbb::detail::d1::rw_mutex::", "tbb::detail::d1::unique_scoped_lock<", "tbb::detail::d1::rw_scoped_lock<",
}

// wrapper reports whether a function is of a library that locks for a program: std::mutex::lock,
// __gthread_mutex_lock, or for Rust <alloc::boxed::Box<dyn Fn()> as core::ops::Fn>::call.
func wrapper(function string) bool {
	name := strings.TrimPrefix(symbol.Path(function), "<")
	return slices.ContainsFunc(wrappers[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
