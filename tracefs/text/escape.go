package text

import (
	"bytes"

	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// Escape rewrites the text of a batch as ustack writes it to files: the kernel's
// strings are escaped, so that a record is one line, or a stack's lines, and
// reading it back gives the records of the batch. The batch must have Records of
// all events. MappingEvents keep pointing into the text that was there before.
//
// If a name with a line feed and a head in it makes the kernel print what looks
// like a record, the batch already has it as a record; text alone cannot
// distinguish the two.
func Escape(b *tracefs.Batch) {
	if b.Escaped {
		return
	}
	b.Escaped = true
	for i, h := range b.Heads {
		if l, ok := h.(layout); ok {
			b.Heads[i] = l.escapes()
		}
	}
	if isEscaped(b) {
		return
	}
	e := escaper{b: b, text: b.Text, out: make([]byte, 0, len(b.Text)+len(b.Text)/4)}
	for i := range b.Records {
		r := &b.Records[i]
		e.lines(r.Off)
		e.record(r)
	}
	e.lines(uint32(len(e.text)))
	b.Text, b.Lines = e.out, lineFeeds(e.out)
}

// isEscaped reports whether a batch is as Escape would write it. It may return
// false although it is.
func isEscaped(b *tracefs.Batch) bool {
	for i := range b.Records {
		switch r := &b.Records[i]; {
		case r.Body > r.Off && bytes.IndexByte(b.Text[r.Off:r.Body], '\n') >= 0, // in a name
			r.Kind == tracefs.KindStack && r.Flags&tracefs.Cut != 0,
			r.Kind == tracefs.KindMappingEvent && mark(string(b.MappingEvent(r).Path)) >= 0,
			r.Kind == tracefs.KindEvent && bytes.IndexByte(b.Raw(r), '\n') < len(b.Raw(r))-1: // more lines than one
			return false
		}
	}
	if bytes.Contains(b.Text, []byte(PlaceMark)) {
		return false
	}
	for lines := b.Text; ; {
		n := escape.Index(lines)
		if n < 0 || lines[n] != '\n' {
			return n < 0
		}
		lines = lines[n+1:]
	}
}

// escaper rewrites the text of a batch.
type escaper struct {
	b    *tracefs.Batch
	text []byte // as it was
	from uint32 // what is before this is written
	out  []byte
}

// record writes a record, which begins at from.
func (e *escaper) record(r *tracefs.Record) {
	end, body := r.End, r.Body
	r.Off = uint32(len(e.out))
	e.head(body)
	r.Body = uint32(len(e.out))
	switch r.Kind {
	case tracefs.KindStack:
		e.stack(r, end)
	case tracefs.KindEvent:
		e.event(r, end)
	case tracefs.KindMappingEvent:
		a := e.b.MappingEvent(r)
		line, feed := cutFeed(e.text[e.from:end])
		e.out = append(AppendMappingEvent(e.out, line, a.Bad != "" || a.BuildID != nil), feed...)
		e.from = end
	default:
		e.lines(end)
	}
	r.End = uint32(len(e.out))
}

// head writes the head of a record, which ends at body. There are no strings after
// the name: what must be escaped there is damage, and would make the columns longer.
func (e *escaper) head(body uint32) {
	if body <= e.from {
		return
	}
	name := uint32(commWidth)
	if len(e.b.Heads) > 0 {
		if p, ok := e.b.Heads[0].(*pattern); ok {
			name = uint32(p.width)
		}
	}
	e.unit(min(e.from+name, body))
	from := len(e.out)
	e.out = append(e.out, e.text[e.from:body]...)
	for n := escape.Index(e.out[from:]); n >= 0; n = escape.Index(e.out[from:]) {
		for i := range escape.Width(e.out[from+n:]) {
			e.out[from+n+i] = '?'
		}
	}
	e.from = body
}

// event writes the rest of an event, after its head, on one line: a line feed in
// one of its strings does not begin a line. If the result would read as another
// record, the lines are kept.
func (e *escaper) event(r *tracefs.Record, end uint32) {
	body, feed := cutFeed(e.text[e.from:end])
	if kind, _ := classify(body); kind != tracefs.KindEvent && r.Flags&tracefs.Continued == 0 {
		e.lines(end)
		return
	}
	e.out = append(escape.Append(e.out, body), feed...)
	e.from = end
}

// cutFeed takes the line feed off the end of a text.
func cutFeed(text []byte) (line, feed []byte) {
	n := len(bytes.TrimSuffix(text, []byte("\n")))
	return text[:n], text[n:]
}

// unit writes the text up to a place as one string. It is no line of ours.
func (e *escaper) unit(to uint32) {
	if n := len(e.out); e.from < to && (n == 0 || e.out[n-1] == '\n') && IsPlace(e.text[e.from:to]) {
		e.out = escape.AppendByte(e.out, e.text[e.from])
		e.from++
	}
	e.out = escape.Append(e.out, e.text[e.from:max(to, e.from)])
	e.from = max(to, e.from)
}

// lines writes the text up to a place line by line.
func (e *escaper) lines(to uint32) {
	for e.from < to {
		n := bytes.IndexByte(e.text[e.from:to], '\n')
		if n < 0 {
			e.unit(to)
			return
		}
		e.unit(e.from + uint32(n))
		e.out = append(e.out, '\n')
		e.from++
	}
}

// stack writes the rest of a stack, after its head.
func (e *escaper) stack(r *tracefs.Record, end uint32) {
	if r.Template != 0 {
		e.lines(r.FrameText)
		r.FrameText = uint32(len(e.out))
		e.lines(end)
		return
	}
	for k := r.Lo; k < r.Hi; k++ {
		f := &e.b.Frames[k]
		e.arrows(f.Off)
		addrText, end := f.AddrEnd, f.End
		f.Off = uint32(len(e.out))
		e.arrows(addrText)
		f.AddrEnd = uint32(len(e.out))
		e.unit(end)
		if f.Form == tracefs.FormCut {
			f.Form, f.ID, f.AddrEnd = tracefs.FormUnresolved, tracefs.Identifier{}, uint32(len(e.out))
			e.out = append(e.out, CutMark...)
		}
		f.End = uint32(len(e.out))
	}
	e.arrows(end)
	if bytes.HasSuffix(e.out, []byte(CutMark)) {
		e.out = append(e.out, '\n')
		r.Flags &^= tracefs.Glued
	}
}

// arrows writes lines of a stack. The tab before an arrow of trace-cmd report is no
// part of a string.
func (e *escaper) arrows(to uint32) {
	for e.from < to {
		n := bytes.Index(e.text[e.from:to], []byte("\t=> "))
		if n < 0 {
			e.lines(to)
			return
		}
		e.lines(e.from + uint32(n))
		e.out = append(e.out, '\t')
		e.from++
	}
}
