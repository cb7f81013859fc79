package record

import (
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs/text"
)

// Converter makes a report of a trace that is one already, or of any other. It
// implements render.Renderer. It writes no head but text.Head, and no end: the
// trace's own lines are kept.
type Converter struct{ Compact }

// NewConverter returns a Converter that writes to file. redact may be nil.
func NewConverter(file *File, redact *redact.Redactor) *Converter {
	c := &Converter{*NewCompact(file)}
	c.Keep, c.Redact = true, redact
	c.buf = append(c.buf, text.Head...)
	return c
}

// Close implements render.Renderer: the file is left open.
func (c *Converter) Close(*resolve.Totals) error { return c.Flush() }
