// Package stackidtest makes maps of kernel stacks for tests, of traces that have the stacks.
package stackidtest

import (
	"bytes"
	"fmt"
	"strings"

	"ustack/tracefs/text"
)

// Stack is a stack of a map.
type Stack struct {
	ID     uint32
	Refs   int
	Frames []string
}

// Number puts numbers in place of the kernel stacks of a trace, and returns the stacks.
func Number(trace []byte) (numbered []byte, stacks []Stack) {
	title, frame := ": "+string(text.AppendKernelTitle(nil))+"\n", text.Arrow
	at := make(map[string]int)
	for len(trace) > 0 {
		i := bytes.Index(trace, []byte(title))
		if i < 0 {
			break
		}
		numbered = append(numbered, trace[:i]...)
		trace = trace[i+len(title):]
		var frames []string
		for bytes.HasPrefix(trace, []byte(frame)) {
			line, rest, _ := bytes.Cut(trace, []byte("\n"))
			frames, trace = append(frames, string(line[len(frame):])), rest
		}
		key := strings.Join(frames, "\n")
		n, known := at[key]
		if !known {
			n = len(stacks)
			at[key] = n
			stacks = append(stacks, Stack{ID: uint32(n * 37), Frames: frames})
		}
		stacks[n].Refs++
		numbered = fmt.Appendf(numbered, ": <stack_id %d>\n", stacks[n].ID)
	}
	return append(numbered, trace...), stacks
}

// Text writes stacks as the kernel does in stack_map.
func Text(stacks []Stack) (out []byte) {
	for _, s := range stacks {
		out = fmt.Appendf(out, "stack_id %d [ref %d, depth %d]\n", s.ID, s.Refs, len(s.Frames))
		for i, f := range s.Frames {
			out = fmt.Appendf(out, "  [%d] %s\n", i, f)
		}
		out = append(out, '\n')
	}
	return out
}
