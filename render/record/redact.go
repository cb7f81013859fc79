package record

import (
	"errors"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// errNoColumns: a name has no room for its token in such a head.
var errNoColumns = errors.New("redacting: a layout without 16 columns for names (switch latency-format off)")

// redactBatch is Batch with secrets taken out.
func (c *Compact) redactBatch(h *resolve.Pending) error {
	from := uint32(0)
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind == tracefs.KindNote && text.IsPlace(h.Raw(rec)) {
			c.buf = c.Redact.AppendFree(c.buf, h.Text[from:rec.Off])
			from = rec.End // it has nothing but names and addresses
			continue
		}
		if rec.Kind != tracefs.KindStack && len(c.buf) >= c.piece() {
			if err := c.Flush(); err != nil {
				return err
			}
		}
		c.buf = c.Redact.AppendFree(c.buf, h.Text[from:rec.Off])
		from = rec.End
		if err := c.redactRecord(h, i); err != nil {
			return err
		}
	}
	c.buf = c.Redact.AppendFree(c.buf, h.Text[from:])
	return c.Flush()
}

func (c *Compact) redactRecord(h *resolve.Pending, i int) error {
	rec := &h.Records[i]
	head, body := h.Text[rec.Off:rec.Body], h.Text[rec.Body:rec.End]
	whole := rec.Flags&tracefs.Continued == 0
	if len(head) > 0 && !redact.HasColumns(head, true) {
		return errNoColumns
	}
	switch rec.Kind {
	case tracefs.KindStack:
		return c.redactStack(h, i)
	case tracefs.KindMappingEvent:
		if h.MappingEvent(rec).Bad == "" {
			c.kept(h, rec)
			return nil
		}
	case tracefs.KindEvent:
		if whole {
			c.pending.Events++
		}
	}
	c.buf = c.head(head)
	switch {
	case !whole:
		c.buf = c.Redact.AppendFree(c.buf, body)
	case rec.Kind == tracefs.KindKernelStack:
		c.buf = c.Redact.AppendKernelStack(c.buf, body)
	case len(head) == 0:
		c.buf = c.Redact.AppendNote(c.buf, body)
	default:
		c.buf = c.Redact.AppendBody(c.buf, body)
	}
	return nil
}

func (c *Compact) redactStack(h *resolve.Pending, i int) error {
	rec := &h.Records[i]
	if rec.Flags&tracefs.Continued == 0 {
		if c.NoStacks {
			c.Left.Stacks++
			return nil
		}
		c.pending.Stacks++
	}
	head := h.Text[rec.Off:rec.Body]
	c.buf = c.head(head)
	frames, txt := h.StackFrames(rec)
	out, _ := h.StackAttributions(i)
	c.fresh = c.fresh[:0]
	if rec.Flags&tracefs.Continued == 0 && h.Text[rec.Body] != '<' {
		c.redactReport(rec, frames, txt, out)
		c.announceFiles(head)
		return nil
	}
	from := rec.Body
	if rec.Template != 0 {
		c.buf = c.Redact.AppendFree(c.buf, h.Text[from:rec.FrameText])
		from = 0 // in txt
	}
	for k := range frames {
		f := &frames[k]
		c.buf = c.Redact.AppendFree(c.buf, txt[from:f.Off])
		if f.Inferred() {
			from = lineEnd(f, txt)
			continue
		}
		c.redactFrame(txt, f, &out[k])
		from = f.End
	}
	if rec.Template != 0 {
		c.endLine()
		c.buf = c.Redact.AppendFree(c.buf, h.Text[rec.FrameText+uint32(len(txt)):rec.End])
	} else {
		c.buf = c.Redact.AppendFree(c.buf, txt[from:rec.End])
	}
	c.endLine() // cut by the kernel, or at the end
	c.announceFiles(head)
	return nil
}

// redactReport writes a stack of trace-cmd report as the kernel would have.
func (c *Compact) redactReport(rec *tracefs.Record, frames []tracefs.Frame, txt []byte, out []resolve.Attribution) {
	if rec.Flags&tracefs.Deferred != 0 {
		c.buf = text.AppendDeferredTitle(c.buf, rec.Value)
	} else {
		c.buf = append(text.AppendStockTitle(c.buf), '\n')
	}
	for k := range frames {
		f, o := &frames[k], &out[k]
		if f.Inferred() {
			continue
		}
		if o.File != nil || o.Memory != nil {
			c.redactFrame(txt, f, o)
		} else {
			c.line = append(tracefs.AppendAddrText(c.line[:0], f.Address(txt)), text.UnresolvedMark...)
			c.line = append(append(c.line, o.Reason.String()...), ')')
			c.buf = c.Redact.AppendFrame(c.buf, c.line)
		}
		c.buf = append(c.buf, '\n')
	}
}

// redactFrame writes a frame without its line feed. An offset that no file has is
// an address: the frame loses its file with it.
func (c *Compact) redactFrame(txt []byte, f *tracefs.Frame, o *resolve.Attribution) {
	from := len(c.buf)
	c.frame(txt, f, o)
	offset := o.Offset
	if !o.HasOffset {
		offset = f.Address(txt)
	}
	if o.File == nil || redact.LooksLikeAddress(offset) {
		c.line = append(c.line[:0], c.buf[from:]...)
		c.buf = c.Redact.AppendFrame(c.buf[:from], c.line)
	}
}

// head appends the head of a record to the pending text.
func (c *Compact) head(head []byte) []byte {
	if c.Redact == nil || len(head) == 0 {
		return append(c.buf, head...)
	}
	return c.Redact.AppendHead(c.buf, head)
}

// renamed returns a file by the name that it has in the report.
func (c *Compact) renamed(f *filemap.File) *filemap.File {
	if c.Redact == nil {
		return f
	}
	return &filemap.File{Path: c.Redact.Path(f.Path), BuildID: f.BuildID}
}
