package render

import (
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// stack is a stack to be written: the text that its frames point into, what they are
// in, and their functions, nil without names.
type stack struct {
	text      []byte
	frames    []tracefs.Frame
	out       []resolve.Attribution
	functions []symbol.Function
}

// stackOf returns a stack that events share.
func stackOf(s *resolve.Stack) stack { return stack{s.Text, s.Frames, s.Attributions, s.Functions} }

// stackAt returns the stack of a record.
func stackAt(h *resolve.Pending, i int) stack {
	frames, text := h.StackFrames(&h.Records[i])
	out, _ := h.StackAttributions(i)
	return stack{text, frames, out, h.StackFunctions(i)}
}

// functionOf returns the function of a frame, nil if stacks have no names.
func functionOf(list []symbol.Function, k int) *symbol.Function {
	if list == nil {
		return nil
	}
	return &list[k]
}
