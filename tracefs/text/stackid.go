package text

import (
	"bytes"
	"strconv"
)

// What a kernel with the option stackmap prints in place of a kernel stack (trace_stack_id_print
// of the series "trace: stack trace deduplication for ftrace ring buffer", June 2026).
const (
	titleStackID    = "<stack_id "
	titleStackIDEnd = ">"
)

// MayHaveStackID reports whether a line can be one that StackIDs takes: it is much faster.
func MayHaveStackID(line []byte) bool { return bytes.Contains(line, []byte(titleStackID)) }

// StackIDs finds the records that are the number of a kernel stack: a header, and
// "<stack_id N>".
type StackIDs struct{ layouts []layout }

// NewStackIDs returns a finder for text that is escaped, or not.
func NewStackIDs(escaped bool) *StackIDs { return &StackIDs{layouts(escaped)} }

// Find returns the number in a line, and how long its header is. A number elsewhere in a line,
// such as in the text of a marker, does not count.
func (s *StackIDs) Find(line []byte) (head int, id uint32, ok bool) {
	head = bytes.LastIndex(line, []byte(titleStackID))
	if head <= 0 {
		return 0, 0, false
	}
	number, found := bytes.CutSuffix(bytes.TrimSuffix(line[head+len(titleStackID):], []byte("\n")), []byte(titleStackIDEnd))
	n, err := strconv.ParseUint(string(number), 10, 32)
	if !found || err != nil {
		return 0, 0, false
	}
	for _, l := range s.layouts {
		if h, is := l.parse(line); is && h.body == head {
			return head, uint32(n), true
		}
	}
	return 0, 0, false
}

// AppendKernelStack appends the body of a record with a kernel stack, as the kernel prints it.
func AppendKernelStack(out []byte, frames []string) []byte {
	out = append(AppendKernelTitle(out), '\n')
	for _, f := range frames {
		out = append(append(append(out, Arrow...), f...), '\n')
	}
	return out
}
