package profile

import (
	"path"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
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

// NewNamer returns a Namer.
func NewNamer() *Namer {
	return &Namer{names: names{files: make(map[*filemap.File]string)}}
}

// Lines returns the functions of a frame, innermost first: one at least. fn is nil
// without names. The list is valid until the next call.
func (n *Namer) Lines(f *Frame, fn *symbol.Function) []Line {
	if _, ok := n.names.files[f.File]; f.File != nil && !ok {
		if len(n.names.files) >= maxNamerFiles {
			clear(n.names.files)
		}
		n.names.files[f.File] = path.Base(f.File.Path)
	}
	n.lines = n.lines[:0]
	for _, l := range n.names.of(f, fn) {
		n.lines = append(n.lines, Line{l.name, l.file, l.line})
	}
	return n.lines
}

// Skipped returns the function that was left out between a frame and the next outer
// one, as a frame and what is known of it; nil if none is known. fn is nil without
// names.
func Skipped(fn *symbol.Function) (*Frame, *symbol.Function) {
	if fn == nil || fn.Skipped == nil {
		return nil, nil
	}
	return &Frame{File: fn.Skipped.File, Offset: fn.Skipped.Offset, Inferred: true}, &symbol.Function{Name: fn.Skipped.Name}
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
	s := resolve.Stack{Cut: rec.Flags&tracefs.Cut != 0, Stock: rec.Flags&tracefs.Deferred == 0, Functions: h.StackFunctions(i)}
	s.Frames, s.Text = h.StackFrames(rec)
	if s.Attributions, s.Result = h.StackAttributions(i); s.Result != nil {
		s.ResultID = s.Result.ID
	}
	return s
}

// call returns where in the file a frame is: in the instruction that called, if
// it is not the innermost one.
func (f *Frame) call(ran bool) uint64 {
	if ran || f.Inferred || f.Interrupted || f.Offset == 0 {
		return f.Offset
	}
	return f.Offset - 1
}
