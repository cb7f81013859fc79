package profile

import (
	"path"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs"
)

// Truncated is the outermost frame of a stack that has lost others.
const Truncated = truncated

// Line is a function of a frame, with its place in the source if that is known.
type Line struct {
	Name, File string
	Line       int
}

// Namer names frames one by one, as a profile's are named; but it does not know
// which files there will be, and calls all by the last element of their path.
type Namer struct {
	names names
	lines []Line
}

// maxNamerFiles bounds what a Namer remembers.
const maxNamerFiles = 1 << 14

// NewNamer returns a Namer. symbols may be nil.
func NewNamer(symbols render.Symbols) *Namer {
	return &Namer{names: names{symbols: symbols, files: make(map[*filemap.File]string)}}
}

// Lines returns the functions of a frame, innermost first: one at least. ran means
// that the thread was there, and will not return there. The list is valid until the
// next call.
func (n *Namer) Lines(f *Frame, ran bool) []Line {
	if _, ok := n.names.files[f.File]; f.File != nil && !ok {
		if len(n.names.files) >= maxNamerFiles {
			clear(n.names.files)
		}
		n.names.files[f.File] = path.Base(f.File.Path)
	}
	n.lines = n.lines[:0]
	for _, l := range n.names.of(f, ran) {
		n.lines = append(n.lines, Line{l.name, l.file, l.line})
	}
	return n.lines
}

// Skipped returns the function that was left out between the frame k of a stack
// and the next outer one; false if none is known.
func (n *Namer) Skipped(frames []Frame, k int) (Frame, bool) {
	s := n.names.between(&stack{frames: frames}, k)
	if s == nil {
		return Frame{}, false
	}
	return frameOfSkipped(s), true
}

// Call returns where in the file a frame is: in the instruction that called, if
// it is one that will be returned to.
func (f *Frame) Call(ran bool) uint64 { return f.call(ran) }

// AppendFrames adds the frames of a stack of a trace, innermost first, as many as
// are kept. cut means that its outermost ones are missing, and no frame says so.
func AppendFrames(list []Frame, st *resolve.Stack) (frames []Frame, cut bool) {
	n := min(len(st.Frames), maxDepth)
	for i := range st.Frames[:n] {
		list = append(list, frameOf(st.Text, &st.Frames[i], &st.Attributions[i]))
	}
	s := stack{frames: list, cut: st.EndsEarly() || n < len(st.Frames)}
	return list, s.incomplete()
}

// StackOf returns the stack of a record that is only a stack.
func StackOf(h *resolve.Pending, i int) resolve.Stack {
	rec := &h.Records[i]
	s := resolve.Stack{Cut: rec.Flags&tracefs.Cut != 0, Stock: rec.Flags&tracefs.Deferred == 0}
	s.Frames, s.Text = h.StackFrames(rec)
	s.Attributions, s.Result = h.StackAttributions(i)
	return s
}
