package text

import (
	"bytes"

	"ustack/tracefs"
)

// glued looks for a record that begins in the middle of a frame line: the
// kernel cuts a record's text at 8 KiB (TRACE_SEQ_BUFFER_SIZE) without a line
// feed, and the next record follows at once. Text that is escaped has no such
// lines: see CutMark.
func (w *walk) glued(line []byte) bool {
	if w.s.escaped || w.o.stack != wantFrames && w.o.stack != wantCookie || w.s.layout == nil || !hasPrefix(line, Arrow) {
		return false
	}
	f, ok := parseFrame(w.b.Text, w.i, w.i+len(line))
	if !ok || !mayBeGlued(f.Form, line) {
		return false
	}
	at := w.innerHeader(line, f.Form == tracefs.FormResolved || f.Form == tracefs.FormUnresolved)
	if at < 0 {
		at = innerMark(line)
	}
	if at < 0 {
		return false
	}
	f.Form, f.ID, f.End = tracefs.FormCut, tracefs.Identifier{}, uint32(w.i+at)
	f.AddrEnd = min(f.AddrEnd, f.End)
	w.b.Frames = append(w.b.Frames, f)
	w.b.Records[w.o.rec].Flags |= tracefs.Cut | tracefs.Glued
	w.i += at
	if h, ok := w.s.layout.parse(w.b.Text[w.i:]); ok {
		w.timed(&clock{})
		// A comm may hold the line feed at which line ends.
		nl := bytes.IndexByte(w.b.Text[w.i+h.body:], '\n')
		if nl < 0 {
			nl = len(w.b.Text) - w.i - h.body
		}
		w.header(w.b.Text[w.i:w.i+h.body+nl], h)
		w.i = min(w.i+h.body+nl+1, len(w.b.Text))
		return true
	}
	line = line[at:]
	if !w.lost(line) {
		w.gap(line)
	}
	w.i += len(line) + 1
	return true
}

// mayBeGlued reports whether a frame line can have a record at its end. A line with
// the kernel's end of a frame is whole.
func mayBeGlued(form tracefs.Form, line []byte) bool {
	switch form {
	case tracefs.FormUnknown, tracefs.FormObject, tracefs.FormUnresolved:
		return true
	case tracefs.FormResolved:
		last := line[len(line)-1]
		return last != '}' && last != ']'
	}
	return false
}

// innerMark finds a line of the kernel's reader at the end of a line, -1 if
// there is none.
func innerMark(line []byte) int {
	for _, begin := range [...]string{"CPU:", "##### CPU ", "[LINE TOO BIG]"} {
		at := bytes.LastIndex(line, []byte(begin))
		if at < len(Arrow) {
			continue
		}
		rest := line[at:]
		if _, _, lost := parseLost(rest); lost || string(rest) == "[LINE TOO BIG]" || isBufferStart(rest) {
			return at
		}
	}
	return -1
}

// innerHeader finds a header inside a line, -1 if there is none.
//
// A comm may hold a line feed, so the header may go on after the line; unless
// strict, which is for lines that are probably whole.
func (w *walk) innerHeader(line []byte, strict bool) int {
	text := w.b.Text[w.i:]
	if strict {
		text = line
	}
	begins := func(at int) bool {
		_, ok := w.s.layout.parse(text[at:])
		return ok
	}
	// The kernel prints in pieces, and drops one that does not fit: the Arrow,
	// the address, the identifier.
	const address, longest = 23, 64
	for _, at := range [...]int{len(Arrow), address} {
		if at < len(line) && begins(at) {
			return at
		}
	}
	for at := address + 1; at < min(len(line), longest); at++ {
		if begins(at) {
			return at
		}
	}
	const tries = 64 // a line of dashes must not take forever
	from := len(Arrow)
	for range tries {
		dash := bytes.IndexByte(line[from:], '-')
		if dash < 0 {
			return -1
		}
		from += dash + 1
		if at := from - 1 - commWidth; at >= len(Arrow) && begins(at) {
			return at
		}
	}
	return -1
}
