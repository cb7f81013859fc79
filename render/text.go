package render

import (
	"io"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// TextOptions configure the text output.
type TextOptions struct {
	BuildID BuildIDStyle
	// KeepMaps keeps mapping events.
	KeepMaps bool
	// Stitch prints each event's stack under the event, in place of the
	// cookies and the stacks themselves. The resolver must have stitched.
	Stitch bool
	// Symbols adds names to frames; nil for none.
	Symbols Symbols
}

// Text writes the trace as it was, byte for byte, but for the frames: a
// resolved one carries path and build ID, another one the reason why not. Text
// that is escaped has a head that says so (text.Head).
type Text struct {
	out *gather
	opt TextOptions
	// begun is set after the first batch; escaped is of its text.
	begun, escaped bool
	kept           kept
	memo           memo
}

// NewText returns a renderer that writes to w.
func NewText(w io.Writer, opt TextOptions) *Text {
	return &Text{out: newGather(w), opt: opt, kept: newKept()}
}

// Batch implements Renderer.
func (t *Text) Batch(h *resolve.Pending) error {
	if !t.begun {
		t.begun, t.escaped = true, h.Escaped
		if t.escaped {
			t.out.buf = append(t.out.buf, text.Head...)
		}
	}
	if t.opt.Stitch {
		return t.stitched(h)
	}
	return t.detached(h)
}

// Flush implements Renderer.
func (t *Text) Flush() error { return t.out.flush() }

// Close implements Renderer. Text ends as the input ends.
func (t *Text) Close(*resolve.Totals) error { return nil }

// detached writes a batch with its records as they came.
func (t *Text) detached(h *resolve.Pending) error {
	from := uint32(0) // text before this is written
	for i := range h.Records {
		rec := &h.Records[i]
		switch rec.Kind {
		case tracefs.KindStack:
			from = t.stack(h, i, from)
			if t.out.full() {
				if err := t.Flush(); err != nil {
					return err
				}
			}
		case tracefs.KindMappingEvent:
			if t.drop(h, rec) {
				t.out.refer(h.Text[from:rec.Off])
				from = rec.End
			}
		}
	}
	t.out.refer(h.Text[from:])
	return t.Flush()
}

// drop reports whether a mapping event is left out. One that could not be
// used stays, for people to see.
func (t *Text) drop(h *resolve.Pending, rec *tracefs.Record) bool {
	return !t.opt.KeepMaps && h.MappingEvent(rec).Bad == ""
}

// stack writes a stack record and all text since from.
func (t *Text) stack(h *resolve.Pending, i int, from uint32) uint32 {
	rec := &h.Records[i]
	switch {
	case rec.Template != 0:
		return t.template(h, i, from)
	case rec.Flags&tracefs.Arrays != 0:
		return t.arrays(h, rec, from)
	}
	frames, out := h.Frames[rec.Lo:rec.Hi], h.Attributions[rec.Lo:rec.Hi]
	if len(frames) > 0 && rec.Flags&(tracefs.Continued|tracefs.Glued) == 0 {
		return t.again(h, rec, frames, out, from)
	}
	return t.once(h, rec, frames, out, from)
}

// again writes a stack that may have been written before.
func (t *Text) again(h *resolve.Pending, rec *tracefs.Record, frames []tracefs.Frame, out []resolve.Attribution, from uint32) uint32 {
	w, seen := t.memo.find(h.Text, frames, out)
	if w == nil {
		return t.once(h, rec, frames, out, from)
	}
	t.out.refer(h.Text[from:frames[0].Off])
	if w.is(frames, out) {
		t.out.refer(w.text)
		return frames[len(frames)-1].End
	}
	start := len(t.out.buf)
	from = t.once(h, rec, frames, out, frames[0].Off)
	if seen {
		t.memo.keep(w, frames, out, t.out.buf[start:])
	}
	return from
}

// once writes a stack frame by frame.
func (t *Text) once(h *resolve.Pending, rec *tracefs.Record, frames []tracefs.Frame, out []resolve.Attribution, from uint32) uint32 {
	for k := range frames {
		f, o := &frames[k], &out[k]
		t.out.refer(h.Text[from:f.Off])
		t.out.buf = t.appendFrame(t.out.buf, h.Text, f, o, ran(rec, frames, k))
		t.out.buf = t.appendSkipped(t.out.buf, h.Text, frames, out, k, ran(rec, frames, k))
		from = f.End
	}
	if rec.Flags&tracefs.Glued != 0 {
		t.out.refer(h.Text[from:rec.End])
		t.out.buf = append(t.out.buf, '\n')
		from = rec.End
	}
	return from
}

// template writes a stack whose frames are a template.
func (t *Text) template(h *resolve.Pending, i int, from uint32) uint32 {
	rec := &h.Records[i]
	frames, txt := h.StackFrames(rec)
	t.out.refer(h.Text[from:rec.FrameText])
	t.frames(h.Results[i], txt, frames)
	return rec.FrameText + uint32(len(txt))
}

// frames writes the frames of a template, which are rendered once.
func (t *Text) frames(res *resolve.Result, txt []byte, frames []tracefs.Frame) {
	if kept := t.kept.results.Get(res.ID); kept != nil {
		t.out.refer(kept)
		return
	}
	start := len(t.out.buf)
	for k := range frames { // of the kernel: templates have no raw addresses
		t.out.buf = t.appendFrame(t.out.buf, txt, &frames[k], &res.Attributions[k], k == 0)
		t.out.buf = append(t.appendSkipped(t.out.buf, txt, frames, res.Attributions, k, k == 0), '\n')
	}
	t.kept.results.Put(res.ID, t.out.buf[start:])
}

// arrays writes a stack that trace-cmd report printed as arrays of bytes: as
// the kernel would have printed it.
func (t *Text) arrays(h *resolve.Pending, rec *tracefs.Record, from uint32) uint32 {
	t.out.refer(h.Text[from:rec.Body])
	b := text.AppendDeferredTitle(t.out.buf, rec.Value)
	frames, out := h.Frames[rec.Lo:rec.Hi], h.Attributions[rec.Lo:rec.Hi]
	for k := range frames {
		b = t.appendFrame(b, h.Text, &frames[k], &out[k], ran(rec, frames, k))
		b = append(t.appendSkipped(b, h.Text, frames, out, k, ran(rec, frames, k)), '\n')
	}
	t.out.buf = b
	return rec.End
}

// fileText is " : path=… build_id={…}", made once a file.
func (t *Text) fileText(f *filemap.File) []byte {
	place := t.kept.file(f)
	if place.text == nil {
		place.text = t.appendFile(nil, f)
	}
	return place.text
}

func (t *Text) appendFile(b []byte, f *filemap.File) []byte {
	b = append(b, text.FileMark...)
	if t.escaped {
		b = text.AppendName(b, f.Path)
	} else {
		b = append(b, strings.ReplaceAll(f.Path, "\n", `\012`)...)
	}
	switch style := t.opt.BuildID; {
	case style == KernelWords && f.HasID:
		b = append(b, text.WordsMark...)
		if f.Words != "" {
			b = append(b, f.Words...)
		} else {
			b = append(b, f.BuildID.Words()...)
		}
		b = append(b, '}')
	case style == HexID && !f.BuildID.IsZero():
		b = append(b, text.HexMark...)
		b = append(b, f.BuildID.Hex()...)
		b = append(b, ']')
	}
	return b
}

func appendReason(b []byte, r filemap.Reason) []byte {
	b = append(b, text.UnresolvedMark...)
	b = append(b, r.String()...)
	return append(b, ')')
}

// stitched writes a batch with stacks under their events.
func (t *Text) stitched(h *resolve.Pending) error {
	from := uint32(0)
	for i := range h.Records {
		rec, a := &h.Records[i], &h.Attached[i]
		switch {
		case a.Taken || rec.Kind == tracefs.KindMappingEvent && t.drop(h, rec):
			t.out.refer(h.Text[from:rec.Off])
			from = rec.End
		case rec.Kind == tracefs.KindStack:
			from = t.stack(h, i, from)
		case a.Stack != nil || a.Missing != resolve.NotMissing:
			t.out.refer(h.Text[from:rec.End])
			if from = rec.End; h.Text[from-1] != '\n' {
				t.out.buf = append(t.out.buf, '\n')
			}
			t.attached(a)
		}
		if t.out.full() {
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	t.out.refer(h.Text[from:])
	return t.Flush()
}

// attached writes the stack of an event, or why it has none.
func (t *Text) attached(a *resolve.Attached) {
	s := a.Stack
	switch {
	case s == nil:
		t.out.buf = append(append(append(t.out.buf, " (no stack: "...), a.Missing.String()...), ")\n"...)
	case s.Result != nil:
		t.frames(s.Result, s.Text, s.Frames)
	default:
		for k := range s.Frames {
			t.out.buf = t.appendFrame(t.out.buf, s.Text, &s.Frames[k], &s.Attributions[k], k == 0)
			t.out.buf = append(t.appendSkipped(t.out.buf, s.Text, s.Frames, s.Attributions, k, k == 0), '\n')
		}
	}
}

// ran reports whether a frame of a stack is the innermost one, or one that a signal
// has interrupted: the thread was there. Others are return addresses.
func ran(rec *tracefs.Record, frames []tracefs.Frame, k int) bool {
	return k == 0 && rec.Flags&tracefs.Continued == 0 || frames[k].Interrupted()
}

// appendFrame writes one frame line, without its line feed.
func (t *Text) appendFrame(b, txt []byte, f *tracefs.Frame, o *resolve.Attribution, ran bool) []byte {
	if o.File != nil {
		return t.appendNamed(b, txt, f, o, ran)
	}
	switch {
	case o.Reason == filemap.VMAOffset && o.Memory != nil:
		b = text.AppendObject(append(b, text.Arrow...), text.AppendName(nil, o.Memory.Name), o.Offset)
		at := len(b)
		b = slices.Delete(tracefs.AppendAddrText(b, f.Address(txt)), at, at+len(text.Arrow)) // as option sym-addr
		b = appendReason(b, o.Reason)
	case o.Memory != nil:
		addr := o.Offset
		if !o.HasOffset {
			addr = f.Address(txt)
		}
		b = tracefs.AppendAddrText(b, addr)
		if t.opt.Symbols != nil {
			if n := CodeName(o.Memory, o.Reason, addr); n != nil {
				b = nameText(b, n)
			}
		}
		b = append(b, " : "...)
		b = appendReason(text.AppendName(b, o.Memory.Name), o.Reason)
	case f.Off == f.End:
		b = tracefs.AppendAddrText(b, f.Addr)
		if !f.ID.IsZero() {
			b = f.ID.Append(append(b, " : "...))
		}
		b = appendReason(b, o.Reason)
	case f.Form != tracefs.FormUnresolved:
		b = append(b, txt[f.Off:f.End]...)
		b = appendReason(b, o.Reason)
	default:
		b = append(b, txt[f.Off:f.End]...)
	}
	return b
}

// appendSkipped writes the line of the function that was left out after a frame,
// with a line feed before it; nothing if there is none.
func (t *Text) appendSkipped(b, txt []byte, frames []tracefs.Frame, out []resolve.Attribution, k int, ran bool) []byte {
	s := between(t.opt.Symbols, txt, frames, out, k, ran)
	if s == nil {
		return b
	}
	b = t.appendFunction(tracefs.AppendAddrText(append(b, '\n'), s.Offset), s.Name)
	if m := out[k].Trust.Skipped().Mark(); m != tracefs.MarkInferred {
		b = append(b, text.FileMarks[m]...)
	}
	return append(b, t.fileText(s.File)...)
}

// appendNamed writes the line of a frame with a file.
func (t *Text) appendNamed(b, txt []byte, f *tracefs.Frame, o *resolve.Attribution, ran bool) []byte {
	if f.Inferred {
		return append(b, txt[f.Off:f.End]...) // as an earlier run wrote it
	}
	at := o.Offset
	switch {
	case o.HasOffset:
		b = tracefs.AppendAddrText(b, o.Offset)
	case f.Off == f.End:
		at = f.Addr
		b = tracefs.AppendAddrText(b, f.Addr)
	case t.opt.Symbols != nil:
		at = f.Address(txt)
		b = append(b, number(txt, f)...)
	default:
		b = append(b, txt[f.Off:f.AddrEnd]...)
	}
	if t.opt.Symbols != nil {
		b = t.appendFunction(b, t.opt.Symbols.Name(o.File, at, ran))
	}
	if f.Form != tracefs.FormResolved || o.HasOffset || t.opt.Symbols != nil {
		b = append(b, text.FileMarks[o.Trust.Mark()]...)
	}
	if f.Form == tracefs.FormResolved && !o.HasOffset {
		return append(b, txt[f.AddrEnd:f.End]...) // as an earlier run wrote it
	}
	return append(b, t.fileText(o.File)...)
}
