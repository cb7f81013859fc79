package record

import (
	"errors"
	"io"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// Compact writes a trace as text in the hash dialect, with its own identifiers and
// a mapping event of each file. It implements render.Renderer. The batches must be
// escaped.
//
// Each Write is a run of whole records. Once a Write has returned ErrFull
// nothing is written any more, and later records are counted as left out, so the
// batches must have events.
type Compact struct {
	// Full is set if there is no more room; Left is what was left out.
	Full bool
	Left Left
	// NoStacks leaves stacks out.
	NoStacks bool
	// Unannounced keeps mapping events back: Files has them.
	Unannounced bool
	// Keep keeps mapping events, also of files that no stack needs.
	Keep bool
	// Flat gives a file one identifier, whatever the marks of its frames, and
	// announces it with the weakest of them: for texts that are compared.
	Flat bool
	// Redact, if set, removes private data: names, paths, addresses, free text. The
	// batches must have events.
	Redact *redact.Redactor
	// Identifiers are the files' identifiers, nil for new ones.
	Identifiers *Identifiers
	// Before, if set, appends lines to b that come before an event, each with its line feed.
	// They are no events of the trace, and are not counted as such. It is not called with Redact.
	Before func(b []byte, h *resolve.Pending, event *tracefs.Record) []byte

	w       io.Writer
	room    func() int64 // how much w has, nil: no end of it
	buf     []byte
	pending Left // what is in buf
	open    bool // what was written last lacks its line feed
	files
	events *filemap.Files // the files of mapping events, with Keep
	line   []byte
}

// marked is a file with the mark of its frames in a report: each mark has its
// own identifier.
type marked struct {
	file *filemap.File
	mark tracefs.Mark
}

// Left counts what was left out, or is in a text.
type Left struct{ Events, Stacks int64 }

func (l *Left) add(o Left) {
	l.Events += o.Events
	l.Stacks += o.Stacks
}

// piece returns how much text is written at once: less when there is little
// room, so that a nearly full file is filled up.
func (c *Compact) piece() int {
	const most, least, part = 4 << 10, 256, 4
	if c.room == nil {
		return most
	}
	return int(min(most, max(least, c.room()/part)))
}

// NewCompact returns a renderer that writes to w.
func NewCompact(w io.Writer) *Compact {
	return &Compact{w: w, files: newFiles(), events: filemap.NewFiles()}
}

// errRaw: untrusted strings could pass for records.
var errRaw = errors.New("writing text that is not escaped")

// Batch implements render.Renderer.
func (c *Compact) Batch(h *resolve.Pending) error {
	if !h.Escaped {
		return errRaw
	}
	if c.Redact != nil {
		return c.redactBatch(h)
	}
	from := uint32(0) // text before this is written
	piece := c.piece()
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind != tracefs.KindStack && len(c.buf)+int(rec.Off-from) >= piece {
			c.buf = append(c.buf, h.Text[from:rec.Off]...)
			from = rec.Off
			if err := c.Flush(); err != nil {
				return err
			}
			piece = c.piece()
		}
		whole := rec.Flags&tracefs.Continued == 0
		switch rec.Kind {
		case tracefs.KindEvent:
			if whole {
				from = c.before(h, rec, from)
				c.pending.Events++
			}
		case tracefs.KindStack:
			if whole && c.NoStacks {
				c.Left.Stacks++
			} else if whole {
				c.pending.Stacks++
			}
			if c.NoStacks {
				c.buf = append(c.buf, h.Text[from:rec.Off]...)
				from = rec.End
				continue
			}
			c.buf = append(c.buf, h.Text[from:rec.Body]...)
			from = c.stack(h, i)
		case tracefs.KindMappingEvent:
			if h.MappingEvent(rec).Bad == "" {
				c.buf = append(c.buf, h.Text[from:rec.Off]...)
				from = rec.End
				c.kept(h, rec)
			}
		}
	}
	c.buf = append(c.buf, h.Text[from:]...)
	return c.Flush()
}

// before writes what comes before an event. Text before from is written, and it returns where
// that is now.
func (c *Compact) before(h *resolve.Pending, event *tracefs.Record, from uint32) uint32 {
	if c.Before == nil {
		return from
	}
	c.line = c.Before(c.line[:0], h, event)
	if len(c.line) == 0 {
		return from
	}
	c.buf = append(c.buf, h.Text[from:event.Off]...)
	c.endLine()
	c.buf = append(c.buf, c.line...)
	return event.Off
}

// Flush implements render.Renderer.
func (c *Compact) Flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	var err error
	if !c.Full {
		_, err = c.w.Write(c.buf)
		c.open = c.buf[len(c.buf)-1] != '\n'
	}
	if errors.Is(err, ErrFull) {
		c.Full, err = true, nil
	}
	if c.Full {
		c.Left.add(c.pending)
	}
	c.buf, c.pending = c.buf[:0], Left{}
	return err
}

// Pending returns what is in the text of the Write that is under way.
func (c *Compact) Pending() Left { return c.pending }

// Close implements render.Renderer.
func (c *Compact) Close(*resolve.Totals) error { return nil }

// End returns the last line of a report. The trace may have ended inside a
// line.
func (c *Compact) End(t *resolve.Totals, left Left) []byte {
	var b []byte
	if c.open {
		b = append(b, '\n')
	}
	return appendEnd(b, t, left)
}

// stack writes a stack from its body on, and after it its files: the kernel puts
// them there, where they do not come between an event and its stack. It returns the
// place after the stack.
func (c *Compact) stack(h *resolve.Pending, i int) uint32 {
	rec := &h.Records[i]
	frames, txt := h.StackFrames(rec)
	out, _ := h.StackAttributions(i)
	c.fresh = c.fresh[:0]
	from := rec.Body
	if rec.Template != 0 {
		c.buf = append(c.buf, h.Text[from:rec.FrameText]...)
		from = 0 // in txt
	}
	for k := range frames {
		f := &frames[k]
		c.buf = append(c.buf, txt[from:f.Off]...)
		if f.Inferred() {
			from = lineEnd(f, txt)
			continue
		}
		c.frame(txt, f, &out[k])
		from = f.End
	}
	if rec.Template != 0 {
		c.endLine()
		c.buf = append(c.buf, h.Text[rec.FrameText+uint32(len(txt)):rec.End]...)
	} else {
		c.buf = append(c.buf, txt[from:rec.End]...)
	}
	c.endLine() // cut by the kernel, or at the end
	c.announceFiles(h.Text[rec.Off:rec.Body])
	return rec.End
}

// lineEnd returns the end of the line of a frame that does not go into a
// report: a report has the kernel's frames, and replay infers the others again.
func lineEnd(f *tracefs.Frame, txt []byte) uint32 { return min(f.End+1, uint32(len(txt))) }

// endLine ends a line that has begun.
func (c *Compact) endLine() {
	if n := len(c.buf); n > 0 && c.buf[n-1] != '\n' {
		c.buf = append(c.buf, '\n')
	}
}

// kept keeps the file of a mapping event, if Keep is set.
func (c *Compact) kept(h *resolve.Pending, rec *tracefs.Record) {
	if !c.Keep {
		return
	}
	if c.events.Bytes() > maxKept {
		c.events = filemap.NewFiles()
		c.forget()
	}
	a := h.MappingEvent(rec)
	c.fresh = c.fresh[:0]
	c.key(marked{c.events.Intern(a.Path, a.BuildID), a.Mark})
	c.announceFiles(h.Text[rec.Off:rec.Body])
}

// frame writes a frame without its line feed.
func (c *Compact) frame(txt []byte, f *tracefs.Frame, o *resolve.Attribution) {
	switch {
	case o.File != nil:
		offset := o.Offset
		if !o.HasOffset {
			offset = f.Address(txt)
		}
		c.buf = tracefs.AppendAddrText(c.buf, offset)
		key, ok := c.key(marked{o.File, o.Trust.Mark()})
		if !ok {
			c.reason(filemap.Forgotten)
			return
		}
		c.buf = tracefs.HashIdentifier(key).Append(append(c.buf, " : "...))
	case o.Memory != nil:
		addr := o.Offset
		if !o.HasOffset {
			addr = f.Address(txt)
		}
		c.buf = append(tracefs.AppendAddrText(c.buf, addr), " : "...)
		c.buf = text.AppendName(c.buf, o.Memory.Name)
		if o.Reason == filemap.Anonymous && o.Memory.Exec {
			c.buf = appendCode(c.buf, o.Memory.Code, addr)
		}
		c.reason(o.Reason)
	default:
		c.buf = append(c.buf, txt[f.Off:f.End]...)
		if f.Form != tracefs.FormUnresolved {
			c.reason(o.Reason)
		}
	}
}

func (c *Compact) reason(r filemap.Reason) {
	c.buf = append(append(append(c.buf, text.UnresolvedMark...), r.String()...), ')')
}

// maxKept bounds the memory for mapping events that are kept.
const maxKept = 4 << 20

// identifier returns the identifier of a file by the name that it has in the
// report, and its mark.
func (c *Compact) identifier(m marked) uint64 {
	if c.Identifiers == nil {
		c.Identifiers = IdentifiersFor(c.Redact)
	}
	return c.Identifiers.Of(c.renamed(m.file), m.mark)
}

// Known announces files that no stack has needed yet, with the head of a record
// (all of its line before the body), as long as more returns true.
func (c *Compact) Known(head []byte, files []*filemap.File, more func() bool) error {
	list := make([]marked, len(files))
	for i, f := range files {
		list[i].file = f
	}
	return c.tellAll(head, list, more)
}

// knownBy announces all files that the stacks of another Compact have needed,
// which keeps mapping events back (Unannounced).
func (c *Compact) knownBy(head []byte, o *Compact, more func() bool) error {
	c.marks = o.marks
	return c.tellAll(head, o.all, more)
}

func (c *Compact) tellAll(head []byte, list []marked, more func() bool) error {
	for _, f := range list {
		if !more() {
			break
		}
		c.fresh = c.fresh[:0]
		c.key(f)
		for _, f := range c.fresh {
			c.announce(head, f)
		}
		if len(c.buf) >= c.piece() {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}
	return c.Flush()
}

// announce writes a mapping event. No file has the device: it means that the
// identifier is the report's own, and carries the mark.
func (c *Compact) announce(head []byte, m marked) {
	f := c.renamed(m.file)
	key := c.identifier(m)
	if weakest, ok := c.marks[key]; ok {
		m.mark = weakest
	}
	words := f.Words
	if words == "" {
		words = f.BuildID.Words()
	}
	c.buf = text.AppendFileMap(c.head(head), &tracefs.MappingEvent{ID: tracefs.HashIdentifier(key), Report: true, Mark: m.mark,
		Path: text.AppendName(nil, f.Path), BuildID: []byte(words)})
}
