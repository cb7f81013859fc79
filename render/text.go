package render

import (
	"bytes"
	"io"
	"strconv"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// TextOptions are what the text output can be told.
type TextOptions struct {
	BuildID BuildIDStyle
	// KeepMaps keeps mapping events.
	KeepMaps bool
	// Stitch prints each event's stack under the event, in place of the
	// cookies and the stacks themselves. The resolver must have stitched.
	Stitch bool
}

// Text writes the trace as it was, byte for byte, but for the frames: a
// resolved one carries path and build ID, another one the reason why not.
type Text struct {
	w   io.Writer
	opt TextOptions
	buf []byte
	// kept counts what was kept of rendered shapes. Nothing is taken off when
	// a shape goes, so a trace of ever new stacks ends by keeping none.
	kept int
}

// NewText returns a renderer that writes to w.
func NewText(w io.Writer, opt TextOptions) *Text { return &Text{w: w, opt: opt} }

// flushAt is when the output buffer is written out; it fits the caches.
const flushAt = 256 << 10

// spillAt is when it is written out in the middle of a batch: a few bytes of
// input can make a lot of output.
const spillAt = 1 << 20

// keepAtMost bounds what is kept of rendered stacks, in all.
const keepAtMost = 8 << 20

// Batch implements Renderer.
func (t *Text) Batch(h *resolve.Held) error {
	if t.opt.Stitch {
		return t.stitched(h)
	}
	return t.detached(h)
}

// Flush implements Renderer.
func (t *Text) Flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

// Close implements Renderer. Text ends as the input ends.
func (t *Text) Close(*resolve.Totals) error { return nil }

// detached writes a batch with its records as they came.
func (t *Text) detached(h *resolve.Held) error {
	from := uint32(0) // text before this is written
	for i := range h.Records {
		rec := &h.Records[i]
		switch rec.Kind {
		case tracefs.KindStack:
			from = t.stack(h, i, from)
			if len(t.buf) > spillAt {
				if err := t.Flush(); err != nil {
					return err
				}
			}
		case tracefs.KindAnnounce:
			if t.drop(h, rec) {
				t.buf = append(t.buf, h.Text[from:rec.Off]...)
				from = rec.End
			}
		}
	}
	t.buf = append(t.buf, h.Text[from:]...)
	return t.Flush()
}

// drop reports whether a mapping event is left out. One that could not be
// used stays, for people to see.
func (t *Text) drop(h *resolve.Held, rec *tracefs.Record) bool {
	return !t.opt.KeepMaps && h.Announcement(rec).Bad == ""
}

// stack writes a stack record and all text since from.
func (t *Text) stack(h *resolve.Held, i int, from uint32) uint32 {
	rec := &h.Records[i]
	switch {
	case rec.Shape != 0:
		return t.shape(h, i, from)
	case rec.Flags&tracefs.Arrays != 0:
		return t.arrays(h, rec, from)
	}
	buf := t.buf
	frames, out := h.Frames[rec.Lo:rec.Hi], h.Outcomes[rec.Lo:rec.Hi]
	for k := range frames {
		f, o := &frames[k], &out[k]
		buf = append(buf, h.Text[from:f.Off]...)
		buf = t.appendFrame(buf, h.Text, f, o)
		from = f.End
	}
	if rec.Flags&tracefs.Glued != 0 {
		buf = append(buf, h.Text[from:rec.End]...)
		buf = append(buf, '\n')
		from = rec.End
	}
	t.buf = buf
	return from
}

// shape writes a stack whose frames are a shape: they are rendered once.
func (t *Text) shape(h *resolve.Held, i int, from uint32) uint32 {
	rec, res := &h.Records[i], h.Results[i]
	frames, txt := h.StackFrames(rec)
	t.buf = append(t.buf, h.Text[from:rec.Lo]...)
	if res.Text == nil {
		start := len(t.buf)
		for k := range frames {
			t.buf = append(t.appendFrame(t.buf, txt, &frames[k], &res.Outcomes[k]), '\n')
		}
		if t.kept += len(t.buf) - start; t.kept < keepAtMost {
			res.Text = bytes.Clone(t.buf[start:])
		}
	} else {
		t.buf = append(t.buf, res.Text...)
	}
	return rec.Lo + uint32(len(txt))
}

// arrays writes a stack that trace-cmd report printed as arrays of bytes: as
// the kernel would have printed it.
func (t *Text) arrays(h *resolve.Held, rec *tracefs.Record, from uint32) uint32 {
	t.buf = append(append(t.buf, h.Text[from:rec.Body]...), "<user stack unwind>\ncookie="...)
	t.buf = append(strconv.AppendUint(t.buf, rec.Value, 16), '\n')
	for k := rec.Lo; k < rec.Hi; k++ {
		t.buf = append(t.appendFrame(t.buf, h.Text, &h.Frames[k], &h.Outcomes[k]), '\n')
	}
	return rec.End
}

// fileText is " : path=… build_id={…}", made once a file.
func (t *Text) fileText(f *filemap.File) []byte {
	if f.Text == nil {
		f.Text = appendFile(nil, f, t.opt.BuildID)
	}
	return f.Text
}

func appendFile(b []byte, f *filemap.File, style BuildIDStyle) []byte {
	b = append(b, " : path="...)
	b = appendPath(b, f.Path)
	switch {
	case style == KernelWords && f.HasID:
		b = append(b, " build_id={"...)
		if f.Words != "" {
			b = append(b, f.Words...)
		} else {
			b = append(b, f.BuildID.Words()...)
		}
		b = append(b, '}')
	case style == HexID && !f.BuildID.IsZero():
		b = append(b, " [build_id="...)
		b = append(b, f.BuildID.Hex()...)
		b = append(b, ']')
	}
	return b
}

// appendPath writes a path on one line: a line feed becomes \012, as in
// /proc/PID/maps.
func appendPath(b []byte, path string) []byte {
	for i := 0; i < len(path); i++ {
		if path[i] == '\n' {
			b = append(b, `\012`...)
		} else {
			b = append(b, path[i])
		}
	}
	return b
}

func appendReason(b []byte, r filemap.Reason) []byte {
	b = append(b, text.UnresolvedMark...)
	b = append(b, r.String()...)
	return append(b, ')')
}

// stitched writes a batch with stacks under their events.
func (t *Text) stitched(h *resolve.Held) error {
	from := uint32(0)
	for i := range h.Records {
		rec, a := &h.Records[i], &h.Attached[i]
		t.buf = append(t.buf, h.Text[from:rec.Off]...)
		from = rec.End
		switch {
		case a.Taken || rec.Kind == tracefs.KindAnnounce && t.drop(h, rec):
		case rec.Kind == tracefs.KindStack:
			from = t.stack(h, i, rec.Off)
			t.buf = append(t.buf, h.Text[from:rec.End]...)
			from = rec.End
		default:
			t.buf = append(t.buf, h.Raw(rec)...)
			t.attached(a)
		}
		if len(t.buf) > spillAt {
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	t.buf = append(t.buf, h.Text[from:]...)
	return t.Flush()
}

// attached writes what hangs on an event.
func (t *Text) attached(a *resolve.Attached) {
	if a.Stack == nil && a.Missing == resolve.NotMissing {
		return
	}
	if n := len(t.buf); n > 0 && t.buf[n-1] != '\n' {
		t.buf = append(t.buf, '\n')
	}
	if a.Stack == nil {
		t.buf = append(t.buf, " (no stack: "...)
		t.buf = append(t.buf, a.Missing.String()...)
		t.buf = append(t.buf, ")\n"...)
		return
	}
	s := a.Stack
	for k := range s.Frames {
		t.buf = append(t.appendFrame(t.buf, s.Text, &s.Frames[k], &s.Outcomes[k]), '\n')
	}
}

// appendFrame writes one frame line, without its line feed.
func (t *Text) appendFrame(b, txt []byte, f *tracefs.Frame, o *resolve.Outcome) []byte {
	switch {
	case o.HasOffset && o.File != nil:
		b = tracefs.AppendStem(b, o.Offset)
		b = append(b, t.fileText(o.File)...)
	case o.Memory != nil:
		addr := o.Offset
		if !o.HasOffset {
			addr = f.Address(txt)
		}
		b = append(tracefs.AppendStem(b, addr), " : "...)
		b = appendReason(appendPath(b, o.Memory.Name), o.Reason)
	case f.Off == f.End:
		b = tracefs.AppendStem(b, f.Addr)
		if o.File != nil {
			b = append(b, t.fileText(o.File)...)
			break
		}
		if !f.ID.IsZero() {
			b = f.ID.Append(append(b, " : "...))
		}
		b = appendReason(b, o.Reason)
	case o.File != nil && f.Form == tracefs.FormIdentifier:
		b = append(b, txt[f.Off:f.Stem]...)
		b = append(b, t.fileText(o.File)...)
	case o.File == nil && f.Form != tracefs.FormUnresolved:
		b = append(b, txt[f.Off:f.End]...)
		b = appendReason(b, o.Reason)
	default:
		b = append(b, txt[f.Off:f.End]...)
	}
	return b
}
