package text

import (
	"bytes"
	"slices"

	"ustack/tracefs"
)

// sum ends a batch that has so much text.
func (w *walk) sum(used int) {
	b := w.b
	if w.s.layout != nil && len(b.Heads) == 0 {
		b.Heads = append(b.Heads, w.s.layout)
	}
	b.Lines -= lineFeeds(b.Text[used:w.i])
	b.Text = b.Text[:used]
}

func lineFeeds(text []byte) int64 { return int64(bytes.Count(text, []byte{'\n'})) }

// walk is one pass over one text.
type walk struct {
	s *Scanner
	b *tracefs.Batch
	o open
	i int // where the next line begins
	// stop is where a header ends the walk, or the end of the text.
	stop     int
	timeless bool // a header has an unusual time
	err      error
	// join is where in the text another file begins, -1 for nowhere.
	join int
	// tried counts the lines that were looked at for a layout to refuse.
	tried int
}

// lines takes the text line by line.
func (w *walk) lines(more More) error {
	for {
		w.fast()
		if w.i >= w.stop {
			return nil
		}
		from := w.i
		done, err := w.anyLine(w.b.Text[w.i:], more)
		w.b.Lines += lineFeeds(w.b.Text[from:w.i])
		if done || err != nil {
			return err
		}
	}
}

// header opens a record. line is its first line without the line feed, or at
// the end of the input without one.
func (w *walk) header(line []byte, h header) {
	w.close(w.i)
	body := line[h.body:]
	if len(body) == 0 || !interesting[body[0]] {
		w.event(h)
		return
	}
	kind, form := classify(body)
	if kind == tracefs.KindEvent && body[len(body)-1] == '\r' {
		if kind, _ := classify(body[:len(body)-1]); kind != tracefs.KindEvent {
			w.err = layoutError("take the carriage returns away (tr -d '\\r')", "its lines end with carriage returns")
			w.o = open{rec: -1, start: w.i}
			return
		}
	}
	switch {
	case form == bodyRefused:
		w.err = fieldsError()
		w.o = open{rec: -1, start: w.i}
	case kind == tracefs.KindEvent:
		w.event(h)
	default:
		w.begin(kind, form, h)
		w.title(line, h)
	}
}

// event opens an event.
func (w *walk) event(h header) {
	w.b.Events++
	if w.s.Events {
		w.begin(tracefs.KindEvent, bodyText, h)
		return
	}
	w.o.kind, w.o.form, w.o.stack, w.o.carried = tracefs.KindEvent, bodyText, noFrames, false
	w.o.start, w.o.rec = w.i, -1
}

// begin makes the open record, and a Record if the consumer wants one.
func (w *walk) begin(kind tracefs.Kind, form bodyForm, h header) {
	b := w.b
	w.o.kind, w.o.form, w.o.stack, w.o.carried = kind, form, noFrames, false
	w.o.start, w.o.rec = w.i, -1
	if kind == tracefs.KindKernelStack && !w.s.Events {
		return
	}
	w.o.rec = len(b.Records)
	b.Records = append(b.Records, tracefs.Record{
		Off: uint32(w.i), Body: uint32(w.i + h.body), TID: h.tid, CPU: h.cpu,
		Lo: uint32(len(b.Frames)), Hi: uint32(len(b.Frames)), Kind: kind,
	})
}

// title reads the first line of a cookie or stack.
func (w *walk) title(line []byte, h header) {
	if w.o.rec < 0 {
		return
	}
	body := line[h.body:]
	r := &w.b.Records[w.o.rec]
	switch w.o.form {
	case bodyCookie:
		r.Value, _ = parseHex(body[len("cookie="):])
	case bodyCookieField:
		at := bytes.Index(body, []byte("cookie="))
		r.Value, _ = parseDec(body[at+len("cookie="):])
	case bodyLines:
		if w.o.kind == tracefs.KindStack {
			w.o.stack = wantFrames
			if rest := body[len(titleStock):]; ParseUnwound(rest, nil) {
				w.o.unwound = rest
			}
		}
	case bodyUnwind:
		r.Flags |= tracefs.Deferred
		w.o.stack = wantCookie
		if rest := body[len(titleDeferred):]; ParseUnwound(rest, nil) {
			w.o.unwound = rest
		}
		if at := bytes.Index(body, []byte("cookie=")); at > 0 {
			r.Value, _ = parseHex(body[at+len("cookie="):])
			w.o.stack = wantFrames
		}
	case bodyReport:
		w.o.stack = reportFrames
		w.reportFrame(line, w.i)
	case bodyArrays:
		r.Flags |= tracefs.Deferred
		at := bytes.Index(body, []byte("cookie="))
		r.Value, _ = parseDec(body[at+len("cookie="):])
		if w.arrayFrames(body, w.i+len(line)) {
			r.Flags |= tracefs.Arrays
		}
	}
}

// close ends the open record at end.
func (w *walk) close(end int) {
	if w.o.rec < 0 {
		return
	}
	b := w.b
	r := &b.Records[w.o.rec]
	r.End = uint32(end)
	switch r.Kind {
	case tracefs.KindStack:
		r.Hi = uint32(len(b.Frames))
		w.markUnwound(r)
	case tracefs.KindMappingEvent:
		whole := end > 0 && b.Text[end-1] == '\n'
		b.AddMappingEvent(r, parseMappingEvent(b.Text[r.Body:r.End], mappingEventForm{whole, w.s.escaped}))
	}
}

// markUnwound notes how the frames of a stack were found that ustack has unwound.
func (w *walk) markUnwound(r *tracefs.Record) {
	if w.o.unwound != nil {
		ParseUnwound(w.o.unwound, w.b.Frames[r.Lo:r.Hi])
		w.o.unwound = nil
	}
}

// anyLine takes a line of an unknown kind. It reports done if the line must
// wait for more text.
func (w *walk) anyLine(line []byte, more More) (done bool, err error) {
	if len(line) < maxHeader && more == MoreSoon {
		return true, nil // a line feed in a comm could pass for the end of so short a header
	}
	if h, ok := w.parseHeader(line); ok {
		nl := bytes.IndexByte(line[h.body:], '\n')
		if nl < 0 && more != MoreNever {
			return true, nil
		}
		end, next := h.body+nl, h.body+nl+1
		if nl < 0 {
			end, next = len(line), len(line)
		}
		w.header(line[:end], h)
		if nl < 0 && w.o.rec >= 0 {
			w.b.Records[w.o.rec].Flags |= tracefs.Cut
		}
		if w.err != nil {
			return true, w.err
		}
		w.i += next
		return false, nil
	}
	nl := bytes.IndexByte(line, '\n')
	if nl < 0 {
		if more != MoreNever {
			return true, nil
		}
		if w.s.layout == nil {
			if err := w.refuse(line); err != nil {
				return true, err
			}
		}
		w.other(line, true)
		w.i += len(line)
		return false, nil
	}
	if w.s.layout == nil {
		if err := w.refuse(line[:nl]); err != nil {
			return true, err
		}
	}
	if w.glued(line[:nl]) {
		return false, nil
	}
	w.other(line[:nl], false)
	w.i += nl + 1
	return false, nil
}

// parseHeader tries the layout, or all of them until one fits.
func (w *walk) parseHeader(line []byte) (header, bool) {
	s := w.s
	if s.layout != nil {
		h, ok := s.layout.parse(line)
		if ok && s.columns != nil {
			s.clock = newClock(line, h.body-len(": "))
			w.timed(&s.clock)
		}
		return h, ok
	}
	for _, l := range s.tries {
		if h, ok := l.parse(line); ok {
			s.layout, s.headed = l, w.i
			s.columns, _ = l.(*columns)
			w.timed(&clock{})
			return h, true
		}
	}
	return header{}, false
}

// refuse looks at a line while no header has been seen.
func (w *walk) refuse(line []byte) error {
	if len(line) == 0 || line[0] == '#' || w.s.refusal.lines+w.tried > tryLines {
		return nil
	}
	w.tried++
	return refuse(line)
}

// other takes a line without a header, line feed not included.
func (w *walk) other(line []byte, atEnd bool) {
	switch {
	case w.joins(line), w.s.escaped && IsPlace(line):
		w.note()
	case w.lost(line), w.gap(line), w.overwritten(line):
		return
	case w.o.stack == reportFrames:
		if !w.reportFrame(line, w.i) {
			w.o.stack = noFrames
		}
	case w.o.stack != noFrames:
		w.stackLine(line, atEnd)
	case w.o.kind == 0 || w.o.kind == tracefs.KindNote || w.o.kind == tracefs.KindLost || w.o.kind == tracefs.KindGap,
		hasPrefix(line, "# tracer: "), w.mappingEventEnded(line):
		w.note()
	}
	if atEnd && w.o.rec >= 0 {
		w.b.Records[w.o.rec].Flags |= tracefs.Cut
	}
}

// mappingEventEnded reports whether a line after a mapping event is not of its
// path: the event was whole, or is longer than any path.
func (w *walk) mappingEventEnded(line []byte) bool {
	const longest = 2 * 4096
	if w.o.kind != tracefs.KindMappingEvent || w.o.rec < 0 {
		return false
	}
	text := w.b.Text[w.o.start:w.i]
	return isWhole(bytes.TrimSuffix(text, []byte("\n"))) || len(text)+len(line) > longest || line == nil
}

// stackLine takes a line in a user stack.
func (w *walk) stackLine(line []byte, atEnd bool) {
	if w.o.stack == wantCookie && hasPrefix(line, "cookie=") {
		if v, n := parseHex(line[len("cookie="):]); n > 0 && len("cookie=")+n == len(line) {
			w.o.stack = wantFrames
			w.b.Records[w.o.rec].Value = v
			return
		}
	}
	f, ok := parseFrame(w.b.Text, w.i, w.i+len(line))
	if !ok {
		w.o.stack = noFrames
		return
	}
	w.o.stack = wantFrames
	if atEnd && f.Form != tracefs.FormUnresolved && (f.Form != tracefs.FormResolved || mayBeGlued(f.Form, line)) {
		f.Form = tracefs.FormCut
	}
	if f.Form == tracefs.FormUnresolved && bytes.HasSuffix(line, []byte(CutMark)) {
		w.b.Records[w.o.rec].Flags |= tracefs.Cut
	}
	w.b.Frames = append(w.b.Frames, f)
}

// single opens a record of one line without a header.
func (w *walk) single(kind tracefs.Kind, cpu int32, value uint64) {
	w.close(w.i)
	w.begin(kind, bodyText, header{tid: tracefs.NoTID, cpu: cpu})
	if w.o.rec >= 0 {
		w.b.Records[w.o.rec].Value = value
	}
}

// note opens a record for text that is none, one a line.
func (w *walk) note() {
	w.close(w.i)
	w.begin(tracefs.KindNote, bodyText, header{tid: tracefs.NoTID, cpu: tracefs.NoCPU})
}

// maxPending bounds a mapping event that waits for the end of its path.
const maxPending = 2 * 4096

// finish closes the walk and returns how much of the text was taken.
func (w *walk) finish(more More) int {
	used := w.end(more)
	if b := w.b; len(b.Records) > 0 && b.Records[0].Flags&tracefs.Continued != 0 && b.Records[0].End == 0 {
		b.Records = slices.Delete(b.Records, 0, 1) // nothing came to continue it
	}
	w.s.refusal.lines += w.tried
	return used
}

// end closes the last record, or takes it back if it may go on.
func (w *walk) end(more More) int {
	b := w.b
	if more == MoreLater && w.o.kind == tracefs.KindMappingEvent && w.i-w.o.start < maxPending && !w.mappingEventEnded([]byte{}) {
		more = MoreSoon // its path may go on
	}
	if more != MoreSoon || w.o.carried || w.o.kind == 0 {
		w.close(w.i)
		w.s.open = w.o
		if w.o.rec >= 0 {
			w.s.open.left = b.Records[w.o.rec]
		}
		return w.i
	}
	// The record may go on: take it back.
	if w.o.rec >= 0 {
		if r := &b.Records[w.o.rec]; r.Template == 0 {
			b.Frames = b.Frames[:r.Lo]
		}
		b.Records = b.Records[:w.o.rec]
	}
	switch w.o.kind {
	case tracefs.KindEvent:
		b.Events--
	case tracefs.KindNote:
		w.tried = max(w.tried-1, 0)
	}
	return w.o.start
}
