package record

import (
	"ustack/filemap"
	"ustack/tracefs/text"
)

// appendCode writes that memory has code, and the function that a frame at an address is in;
// nil if it is unknown. Where a report is read there is nothing that could name it.
func appendCode(b []byte, c *filemap.Code, addr uint64) []byte {
	var known text.Code
	switch {
	case c == nil:
	case c.Runtime:
		known = text.Code{Function: c.Function, Runtime: true, Offset: c.Offset, Inlined: c.Inlined}
	case c.Start <= addr:
		known = text.Code{Function: c.Function, Offset: addr - c.Start}
	}
	return text.AppendCode(b, &known)
}
