package tracefs

import "bytes"

// LineCounter knows in which lines of the input the records of a batch begin, for records
// that are asked for in order: Batch.LineOf counts all lines before one.
//
// Invariant: line lines of the input are before Text[off] and before the record next.
type LineCounter struct {
	b    *Batch
	next int
	off  uint32
	line int64
}

// Begin begins with a batch.
func (c *LineCounter) Begin(b *Batch) { *c = LineCounter{b: b, line: b.Line} }

// Of returns the line in which record i of the batch begins, counted from 1.
func (c *LineCounter) Of(i int) int64 {
	r := &c.b.Records[i]
	if i < c.next || r.Off < c.off {
		return c.b.LineOf(r) + 1
	}
	for ; c.next < i; c.next++ {
		if other := &c.b.Records[c.next]; other.Flags&NoText != 0 {
			c.line += c.b.LinesOf(other)
		}
	}
	c.line += int64(bytes.Count(c.b.Text[c.off:r.Off], []byte{'\n'}))
	c.off = r.Off
	return c.line + 1
}
