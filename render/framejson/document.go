package framejson

import (
	"io"

	"ustack/render/plainjson"
	"ustack/render/stackset"
	"ustack/tracefs"
)

// Stack is a stack, or why there is none.
type Stack struct {
	Frames []Frame `json:"stack,omitempty"`
	Cut    bool    `json:"stack_truncated,omitempty"`
	End    string  `json:"stack_end,omitempty"`
	None   string  `json:"no_stack,omitempty"`
}

// StackOf returns a stack, which may be nil: none says why.
func StackOf(s *stackset.Stack, none string) Stack {
	out := Stack{Frames: Frames(s), None: none}
	if s != nil {
		out.Cut, out.End = s.Cut, s.EndWord()
	}
	return out
}

// Bucket is a part of a histogram of times: those of From and more, below the next one.
type Bucket struct {
	From  tracefs.Time `json:"from_ns"`
	Count int64        `json:"count"`
}

// Write writes a document.
func Write(w io.Writer, document any) error {
	e := plainjson.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(document)
}
