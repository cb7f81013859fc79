package phrase

import (
	"fmt"
	"path"
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
// that they are inlined in, with the place in the source if it is known.
func Function(n *symbol.Name) string {
	var b strings.Builder
	for i := range n.Inlined {
		b.WriteString(Printable(n.Inlined[i].Function) + " < ")
	}
	b.WriteString(Printable(n.Function))
	if n.File == "" {
		return b.String() + fmt.Sprintf("+%#x", n.Offset)
	}
	return b.String() + " " + Printable(path.Base(n.File)) + ":" + strconv.Itoa(n.Line)
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

// Callers names the innermost frames outside of the C library: the function
// that takes the lock, and its callers.
func Callers(s *stackset.Stack) string {
	const most = 3
	var out []string
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File == nil && f.Reason == filemap.NotCode && i > 0 {
			break // frame pointers led to data
		}
		if f.File != nil && !f.InLibc() || f.File == nil {
			out = append(out, Frame(f))
		}
		if f.Skipped != nil && filemap.CLibrary(f.Skipped.File.Path) == "" {
			out = append(out, Skipped(f.Skipped))
		}
		if len(out) >= most {
			out = out[:most]
			break
		}
	}
	if len(out) == 0 && len(s.Frames) > 0 {
		return Frame(&s.Frames[0])
	}
	return strings.Join(out, " < ")
}
