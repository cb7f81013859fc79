package render

import (
	"io"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
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
		case tracefs.KindMappingEvent, tracefs.KindNote:
			if t.drop(h, rec) {
				t.out.refer(h.Text[from:rec.Off])
				from = rec.End
			}
		}
	}
	t.out.refer(h.Text[from:])
	return t.Flush()
}

// drop reports whether a record is left out: a mapping event, or a line of a report with where
// a futex is. A mapping event that could not be used stays, for people to see.
func (t *Text) drop(h *resolve.Pending, rec *tracefs.Record) bool {
	if rec.Kind == tracefs.KindNote {
		return !t.opt.KeepMaps && h.Escaped && text.IsPlace(h.Raw(rec))
	}
	return !t.opt.KeepMaps && h.MappingEvent(rec).Bad == ""
}

// stack writes a stack record and all text since from.
func (t *Text) stack(h *resolve.Pending, i int, from uint32) uint32 {
	rec := &h.Records[i]
	switch {
	case rec.Template != 0:
		return t.template(h, i, from)
	case rec.Flags&tracefs.Arrays != 0:
		return t.arrays(h, i, from)
	}
	frames, out := h.Frames[rec.Lo:rec.Hi], h.Attributions[rec.Lo:rec.Hi]
	if len(frames) > 0 && rec.Flags&(tracefs.Continued|tracefs.Glued) == 0 {
		return t.again(h, i, frames, out, from)
	}
	return t.once(h, i, from)
}

// again writes a stack that may have been written before.
func (t *Text) again(h *resolve.Pending, i int, frames []tracefs.Frame, out []resolve.Attribution, from uint32) uint32 {
	w, seen := t.memo.find(h.Text, frames, out)
	if w == nil {
		return t.once(h, i, from)
	}
	t.out.refer(h.Text[from:frames[0].Off])
	if w.is(frames, out) {
		t.out.refer(w.text)
		return frames[len(frames)-1].End
	}
	start := len(t.out.buf)
	from = t.once(h, i, frames[0].Off)
	if seen {
		t.memo.keep(w, frames, out, t.out.buf[start:])
	}
	return from
}

// once writes a stack frame by frame.
func (t *Text) once(h *resolve.Pending, i int, from uint32) uint32 {
	rec, s := &h.Records[i], stackAt(h, i)
	for k := range s.frames {
		t.out.refer(h.Text[from:s.frames[k].Off])
		t.out.buf = t.appendFrame(t.out.buf, &s, k)
		from = s.frames[k].End
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
	_, txt := h.StackFrames(rec)
	t.out.refer(h.Text[from:rec.FrameText])
	res := h.Results[i]
	if kept := t.kept.results.Get(res.ID); kept != nil {
		t.out.refer(kept)
	} else {
		s := stackAt(h, i)
		t.frames(res.ID, &s)
	}
	return rec.FrameText + uint32(len(txt))
}

// frames writes the frames of a template, which are rendered once, or of another stack,
// which has no ID.
func (t *Text) frames(id uint64, s *stack) {
	start := len(t.out.buf)
	t.lines(s)
	t.kept.results.Put(id, t.out.buf[start:])
}

// lines writes a line for each frame.
func (t *Text) lines(s *stack) {
	for k := range s.frames {
		t.out.buf = append(t.appendFrame(t.out.buf, s, k), '\n')
	}
}

// arrays writes a stack that trace-cmd report printed as arrays of bytes: as
// the kernel would have printed it.
func (t *Text) arrays(h *resolve.Pending, i int, from uint32) uint32 {
	rec := &h.Records[i]
	t.out.refer(h.Text[from:rec.Body])
	t.out.buf = text.AppendDeferredTitle(t.out.buf, rec.Value)
	s := stackAt(h, i)
	t.lines(&s)
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
		case a.Taken || (rec.Kind == tracefs.KindMappingEvent || rec.Kind == tracefs.KindNote) && t.drop(h, rec):
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
	if a.Stack == nil {
		t.out.buf = append(append(append(t.out.buf, " (no stack: "...), a.Missing.String()...), ")\n"...)
		return
	}
	if kept := t.kept.results.Get(a.Stack.ResultID); kept != nil {
		t.out.refer(kept)
		return
	}
	s := stackOf(a.Stack)
	t.frames(a.Stack.ResultID, &s)
}

// appendFrame writes one frame line, without its line feed, and after it the line of
// the function that was left out after the frame, if there is one.
func (t *Text) appendFrame(b []byte, s *stack, k int) []byte {
	fn := functionOf(s.functions, k)
	b = t.appendLine(b, s.text, &s.frames[k], &s.out[k], fn)
	if fn == nil || fn.Skipped == nil {
		return b
	}
	return t.appendSkipped(append(b, '\n'), fn.Skipped, s.out[k].Trust.Skipped())
}

// appendLine writes the line of a frame. fn is nil without names.
func (t *Text) appendLine(b, txt []byte, f *tracefs.Frame, o *resolve.Attribution, fn *symbol.Function) []byte {
	if o.File != nil {
		return t.appendNamed(b, txt, f, o, fn)
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
		if fn != nil && fn.Name != nil {
			b = nameText(b, fn.Name)
		}
		b = append(b, " : "...)
		b = appendReason(text.AppendName(b, o.Memory.Name), o.Reason)
	case f.Off == f.End:
		b = tracefs.AppendAddrText(b, f.Addr)
		if !f.ID.IsZero() {
			b = f.ID.Append(append(b, " : "...))
		}
		b = appendReason(b, o.Reason)
	case f.Form == tracefs.FormBuildID:
		b = appendReason(append(b, txt[f.Off:f.AddrEnd]...), o.Reason)
	case f.Form != tracefs.FormUnresolved:
		b = append(b, txt[f.Off:f.End]...)
		b = appendReason(b, o.Reason)
	default:
		b = append(b, txt[f.Off:f.End]...)
	}
	return b
}

// appendSkipped writes the line of a function that was left out.
func (t *Text) appendSkipped(b []byte, s *symbol.Skipped, trust filemap.Trust) []byte {
	b = t.appendFunction(tracefs.AppendAddrText(b, s.Offset), s.Name)
	if m := trust.Mark(); m != tracefs.MarkInferred {
		b = append(b, text.FileMarks[m]...)
	}
	return append(b, t.fileText(s.File)...)
}

// appendNamed writes the line of a frame with a file.
func (t *Text) appendNamed(b, txt []byte, f *tracefs.Frame, o *resolve.Attribution, fn *symbol.Function) []byte {
	if f.Inferred() {
		return append(b, txt[f.Off:f.End]...) // as an earlier run wrote it
	}
	switch {
	case o.HasOffset:
		b = tracefs.AppendAddrText(b, o.Offset)
	case f.Off == f.End:
		b = tracefs.AppendAddrText(b, f.Addr)
	case fn != nil:
		b = append(b, number(txt, f)...)
	default:
		b = append(b, txt[f.Off:f.AddrEnd]...)
	}
	if fn != nil {
		b = t.appendFunction(b, fn.Name)
	}
	if f.Form != tracefs.FormResolved || o.HasOffset || fn != nil {
		b = append(b, text.FileMarks[o.Trust.Mark()]...)
	}
	if f.Form == tracefs.FormResolved && !o.HasOffset {
		return append(b, txt[f.AddrEnd:f.End]...) // as an earlier run wrote it
	}
	return append(b, t.fileText(o.File)...)
}
