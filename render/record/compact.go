package record

import (
	"errors"
	"io"
	"strconv"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// Compact writes a trace as text in the hash dialect, with identifiers of its
// own and an announcement of each file. It implements render.Renderer.
//
// What is written in one Write is a run of whole records. Once a Write has
// returned ErrFull nothing is written any more, and all that comes is counted as
// left out: by records, so the batches must have events.
type Compact struct {
	// Full tells that there is no more room, Left what was left out.
	Full bool
	Left Left
	// NoStacks leaves stacks out.
	NoStacks bool
	// Untold keeps announcements back: Files has them.
	Untold bool
	// Keep keeps announcements, also of files that no stack needs.
	Keep bool
	// Redact, if it is there, takes out what is nobody's business: names, paths,
	// addresses, free text. The batches must have events.
	Redact *redact.Redactor

	w     io.Writer
	room  func() int64 // how much w has, nil: no end of it
	buf   []byte
	known map[marked]uint64
	told  map[uint64]bool
	fresh []marked       // of the stack at hand
	all   []marked       // that were told, with Untold
	held  Left           // what is in buf
	files *filemap.Files // that were announced, with Keep
	line  []byte
}

// marked is a file with what a report says of the frames that have it: each mark
// has an identifier of its own.
type marked struct {
	file *filemap.File
	mark tracefs.Mark
}

// Left is what was left out.
type Left struct{ Events, Stacks int64 }

func (l *Left) add(o Left) {
	l.Events += o.Events
	l.Stacks += o.Stacks
}

// piece is how much text is written at once: less when there is little room, so
// that a nearly full file gets what still fits.
func (c *Compact) piece() int {
	const most, least, part = 4 << 10, 256, 4
	if c.room == nil {
		return most
	}
	return int(min(most, max(least, c.room()/part)))
}

// NewCompact returns a renderer that writes to w.
func NewCompact(w io.Writer) *Compact {
	return &Compact{w: w, known: make(map[marked]uint64), files: filemap.NewFiles(), told: make(map[uint64]bool)}
}

// Batch implements render.Renderer.
func (c *Compact) Batch(h *resolve.Held) error {
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
				c.held.Events++
			}
		case tracefs.KindStack:
			if whole && c.NoStacks {
				c.Left.Stacks++
			} else if whole {
				c.held.Stacks++
			}
			if c.NoStacks {
				c.buf = append(c.buf, h.Text[from:rec.Off]...)
				from = rec.End
				continue
			}
			c.buf = append(c.buf, h.Text[from:rec.Body]...)
			from = c.stack(h, i)
		case tracefs.KindAnnounce:
			if h.Announcement(rec).Bad == "" {
				c.buf = append(c.buf, h.Text[from:rec.Off]...)
				from = rec.End
				c.kept(h, rec)
			}
		}
	}
	c.buf = append(c.buf, h.Text[from:]...)
	return c.Flush()
}

// Flush implements render.Renderer.
func (c *Compact) Flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	var err error
	if !c.Full {
		_, err = c.w.Write(c.buf)
	}
	if errors.Is(err, ErrFull) {
		c.Full, err = true, nil
	}
	if c.Full {
		c.Left.add(c.held)
	}
	c.buf, c.held = c.buf[:0], Left{}
	return err
}

// Close implements render.Renderer.
func (c *Compact) Close(*resolve.Totals) error { return nil }

// stack writes a stack from its body on, and behind it what its files are: that
// is where the kernel puts it, and where it does not come between an event and
// its stack. It returns the place behind the stack.
func (c *Compact) stack(h *resolve.Held, i int) uint32 {
	rec := &h.Records[i]
	frames, txt := h.StackFrames(rec)
	out, _ := h.StackOutcomes(i)
	c.fresh = c.fresh[:0]
	from := rec.Body
	if rec.Shape != 0 {
		c.buf = append(c.buf, h.Text[from:rec.Lo]...)
		from = 0 // in txt
	}
	for k := range frames {
		f := &frames[k]
		c.buf = append(c.buf, txt[from:f.Off]...)
		if f.Inferred {
			from = behind(f, txt)
			continue
		}
		c.frame(txt, f, &out[k])
		from = f.End
	}
	if rec.Shape != 0 {
		c.endLine()
		c.buf = append(c.buf, h.Text[rec.Lo+uint32(len(txt)):rec.End]...)
	} else {
		c.buf = append(c.buf, txt[from:rec.End]...)
	}
	c.endLine() // cut by the kernel, or at the end
	c.tell(h.Text[rec.Off:rec.Body])
	return rec.End
}

// behind is where the line of a frame is over that does not go into a report: a
// report has the kernel's frames, and whoever replays it infers the others again.
func behind(f *tracefs.Frame, txt []byte) uint32 { return min(f.End+1, uint32(len(txt))) }

// endLine ends a line that has begun.
func (c *Compact) endLine() {
	if n := len(c.buf); n > 0 && c.buf[n-1] != '\n' {
		c.buf = append(c.buf, '\n')
	}
}

// tell announces the files that a stack is the first to need, with the stack's
// head.
func (c *Compact) tell(head []byte) {
	if c.Untold {
		c.all = append(c.all, c.fresh...)
		return
	}
	for _, f := range c.fresh {
		c.announce(head, f)
	}
}

// kept keeps what an announcement says, if there is Keep.
func (c *Compact) kept(h *resolve.Held, rec *tracefs.Record) {
	if !c.Keep {
		return
	}
	if c.files.Bytes() > maxKept {
		c.files = filemap.NewFiles()
		clear(c.known)
	}
	a := h.Announcement(rec)
	c.fresh = c.fresh[:0]
	c.key(marked{c.files.Intern(a.Path, a.BuildID), a.Mark})
	c.tell(h.Text[rec.Off:rec.Body])
}

// frame writes a frame without its line feed.
func (c *Compact) frame(txt []byte, f *tracefs.Frame, o *resolve.Outcome) {
	switch {
	case o.File != nil:
		offset := o.Offset
		if !o.HasOffset {
			offset = f.Address(txt)
		}
		c.buf = tracefs.AppendStem(c.buf, offset)
		c.buf = tracefs.HashIdentifier(c.key(marked{o.File, o.Trust.Mark()})).Append(append(c.buf, " : "...))
	case o.Memory != nil:
		addr := o.Offset
		if !o.HasOffset {
			addr = f.Address(txt)
		}
		c.buf = append(tracefs.AppendStem(c.buf, addr), " : "...)
		c.buf = render.AppendPath(c.buf, o.Memory.Name)
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

// maxKept bounds the memory for announcements that are kept.
const maxKept = 4 << 20

// maxKnown bounds the files that are kept; it is far above what a machine runs.
const maxKnown = 1 << 16

// key is the identifier of a file. It notes that the file has to be announced.
func (c *Compact) key(f marked) uint64 {
	key, ok := c.known[f]
	if !ok {
		if len(c.known) >= maxKnown {
			clear(c.known) // what was told stays told
		}
		key = c.renamed(f.file).Identifier(f.mark)
		c.known[f] = key
	}
	if !c.told[key] {
		c.told[key] = true
		c.fresh = append(c.fresh, f)
	}
	return key
}

// Known announces files that no stack has needed yet, with the head of a record
// (all of its line before the body), as long as more says so.
func (c *Compact) Known(head []byte, files []*filemap.File, more func() bool) error {
	list := make([]marked, len(files))
	for i, f := range files {
		list[i].file = f
	}
	return c.tellAll(head, list, more)
}

// KnownBy announces all files that the stacks of another Compact have needed,
// which keeps announcements back (Untold).
func (c *Compact) KnownBy(head []byte, o *Compact, more func() bool) error {
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

// announce writes a mapping event. The device is none that a file has: it says
// that the identifier is the report's own, and the mark.
func (c *Compact) announce(head []byte, m marked) {
	f := c.renamed(m.file)
	c.buf = append(c.head(head), "file_map: hash=0x"...)
	c.buf = strconv.AppendUint(c.buf, f.Identifier(m.mark), 16)
	c.buf = append(strconv.AppendUint(append(c.buf, " dev=[0:"...), uint64(m.mark), 10), ']')
	c.buf = render.AppendPath(append(c.buf, " path="...), f.Path)
	words := f.Words
	if words == "" {
		words = f.BuildID.Words()
	}
	c.buf = append(append(append(c.buf, " build_id={"...), words...), "}\n"...)
}
