package record

import (
	"errors"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// errRedacts: Event writes what it gets.
var errRedacts = errors.New("writing an event of no trace: it cannot be redacted")

// Event writes an event that comes from no trace: the head of its line, the text after that
// without the line feed, escaped, and a stack after it, nil for none, of frames with an address or
// offset and its attribution.
func (c *Compact) Event(head, body []byte, s *resolve.Stack) error {
	if c.Redact != nil {
		return errRedacts
	}
	c.buf = append(append(append(c.buf, head...), body...), '\n')
	c.pending.Events++
	if s != nil && len(s.Frames) > 0 {
		c.pending.Stacks++
		c.fresh = c.fresh[:0]
		c.buf = text.AppendStockTitle(append(c.buf, head...))
		if s.Frames[0].Followed() {
			c.buf = text.AppendUnwound(c.buf, s.Frames)
		}
		c.buf = append(c.buf, '\n')
		for i := range s.Frames {
			c.line = tracefs.AppendAddrText(c.line[:0], s.Frames[i].Addr)
			f := tracefs.Frame{Addr: s.Frames[i].Addr, HasAddr: true, End: uint32(len(c.line)), AddrEnd: uint32(len(c.line))}
			c.frame(c.line, &f, &s.Attributions[i])
			c.buf = append(c.buf, '\n')
		}
		c.announceFiles(head)
	}
	return c.Flush()
}
