package text

import (
	"bytes"
	"encoding/hex"
	"strconv"

	"ustack/tracefs"
)

// mapStacks is what a Scanner knows of a text of BPF maps. Its lines have no headers:
//
//	@[
//	    bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x1178
//	    0x7f3578507123
//	, worker]: 12
//
// is what bpftrace prints for a map whose keys have an ustack(build_id): the build ID of a
// file and the offset in it, or an address where the kernel found no build ID, and after the
// stack its count. AppendMapStack writes the same. Lines that ustack has put in place of
// frames are frames, too. All other lines pass through.
//
// Invariant: a stack is a run of lines that can be frames, of which one has a build ID, or
// which follows the beginning of a key or value.
type mapStacks struct {
	opened bool // the line before begins a key or value
	cut    bool // the line before is of a stack that had too many frames
}

// maxMapFrames bounds a stack, and maxMapText its text in a full buffer: the kernel has at
// most sysctl perf_event_max_stack frames, 127 by default.
const (
	maxMapFrames = 1 << 14
	maxMapText   = 64 << 10
)

// buildIDDigits is how long a build ID is in hexadecimal.
const buildIDDigits = 40

// mapsAhead looks for stacks of BPF maps in what comes before the first header of an ftrace.
type mapsAhead struct {
	opened bool // the last line begins a key or value
}

// hasStack reports whether a text that goes on has a line that no ftrace has before its
// first record, but text of BPF maps.
func (m *mapsAhead) hasStack(text []byte) bool {
	for line := range bytes.Lines(text) {
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			return false
		}
		if f, ok := parseMapFrame(line, line, 0); ok && (f.Form == tracefs.FormBuildID || m.opened && hasPrefix(line, Arrow)) {
			return true
		}
		m.opened = len(line) > 0 && line[0] == '@' && opensMapStack(line)
	}
	return false
}

// HasMapStacks reports whether a text has a line that no ftrace has before its first
// record, but text of BPF maps.
func HasMapStacks(text []byte) bool {
	var m mapsAhead
	return readsMaps && m.hasStack(text)
}

// scanMaps is Scan for a text of BPF maps.
func (s *Scanner) scanMaps(b *tracefs.Batch, more More) int {
	b.Lines, b.Escaped = 0, s.escaped
	w := mapWalk{s: s.maps, b: b, events: s.Events, first: -1, was: *s.maps}
	for w.i < len(b.Text) {
		n := bytes.IndexByte(b.Text[w.i:], '\n')
		if n < 0 && more != MoreNever {
			break
		}
		if n < 0 {
			n = len(b.Text) - w.i - 1
		}
		w.line(w.i, w.i+n+1)
		w.i += n + 1
	}
	switch {
	case more == MoreNever:
		w.end(nil)
	case more == MoreLater && w.first >= 0 && w.i-w.first > maxMapText:
		w.end(nil)
		w.s.cut = true
	}
	used := w.back()
	b.Text = b.Text[:used]
	b.Lines = lineFeeds(b.Text)
	return used
}

// mapWalk is one pass over a text of BPF maps.
type mapWalk struct {
	s      *mapStacks
	b      *tracefs.Batch
	events bool
	i      int
	// first is where the first line of the stack at hand begins, -1 for none; lo is its
	// first frame. sure: it is a stack.
	first, lo int
	sure      bool
	was       mapStacks // before it
}

// line takes a line with its line feed, if it has one.
func (w *mapWalk) line(from, to int) {
	line := bytes.TrimSuffix(w.b.Text[from:to], []byte("\n"))
	f, ok := parseMapFrame(w.b.Text, line, from)
	if ok && w.first >= 0 && len(w.b.Frames)-w.lo >= maxMapFrames {
		w.end(nil)
		w.s.cut = true
	}
	if !ok {
		w.end(line)
		w.note(from, to)
		w.s.opened = opensMapStack(line)
		return
	}
	if w.first < 0 {
		w.first, w.lo, w.sure, w.was = from, len(w.b.Frames), w.s.opened || w.s.cut, *w.s
	}
	w.sure = w.sure || f.Form == tracefs.FormBuildID
	w.b.Frames = append(w.b.Frames, f)
}

// end ends the stack at hand. next is the line after it, nil for none.
func (w *mapWalk) end(next []byte) {
	if w.first < 0 {
		return
	}
	b, first := w.b, w.first
	w.first = -1
	if !w.sure {
		b.Frames = b.Frames[:w.lo]
		for line := range bytes.Lines(b.Text[first:w.i]) {
			w.note(first, first+len(line))
			first += len(line)
		}
		*w.s = mapStacks{}
		return
	}
	r := tracefs.Record{Off: uint32(first), Body: uint32(first), End: uint32(w.i), TID: tracefs.NoTID, CPU: tracefs.NoCPU,
		Lo: uint32(w.lo), Hi: uint32(len(b.Frames)), Kind: tracefs.KindStack}
	if w.s.cut {
		r.Flags |= tracefs.Continued
	}
	if n, ok := mapCount(next); ok {
		r.Flags |= tracefs.Counted
		r.Value = n
	}
	b.Records = append(b.Records, r)
	*w.s = mapStacks{}
}

// note appends a record for a line that is no frame.
func (w *mapWalk) note(from, to int) {
	if w.events {
		w.b.Records = append(w.b.Records, tracefs.Record{Off: uint32(from), Body: uint32(from), End: uint32(to),
			TID: tracefs.NoTID, CPU: tracefs.NoCPU, Lo: uint32(len(w.b.Frames)), Hi: uint32(len(w.b.Frames)), Kind: tracefs.KindNote})
	}
}

// back takes back a stack that may go on, and returns how much of the text is used.
func (w *mapWalk) back() int {
	if w.first < 0 {
		return w.i
	}
	w.b.Frames = w.b.Frames[:w.lo]
	*w.s = w.was
	return w.first
}

// parseMapFrame reads a line of a stack, which is text[off:] up to its line feed.
func parseMapFrame(text, line []byte, off int) (tracefs.Frame, bool) {
	f := tracefs.Frame{Off: uint32(off), End: uint32(off + len(line)), AddrEnd: uint32(off + len(line)), HasAddr: true}
	if hasPrefix(line, Arrow) {
		return parseFrame(text, off, off+len(line))
	}
	body := bytes.TrimLeft(line, " \t")
	body, given, ended := bytes.Cut(body, []byte(UnresolvedMark))
	if ended {
		f.AddrEnd -= uint32(len(UnresolvedMark) + len(given))
	}
	if id, offset, ok := bytes.Cut(body, []byte(" ")); ok && isHexID(id) {
		f.Form = tracefs.FormBuildID
		f.Addr, ok = prefixedHex(offset)
		return f, ok
	}
	if len(body) == len(line) || len(body) == 0 {
		return f, false
	}
	f.Form = tracefs.FormPlain
	if ended {
		f.Form = tracefs.FormUnresolved
	}
	var ok bool
	if f.Addr, ok = prefixedHex(body); !ok {
		var n int
		f.Addr, n = parseHex(body)
		ok = n == len(body) && n <= addressDigits
	}
	return f, ok
}

// addressDigits is how long an address is at most.
const addressDigits = 16

// prefixedHex reads 0x and up to 16 digits.
func prefixedHex(b []byte) (uint64, bool) {
	digits, ok := bytes.CutPrefix(b, []byte("0x"))
	if !ok || len(digits) == 0 || len(digits) > addressDigits {
		return 0, false
	}
	v, n := parseHex(digits)
	return v, n == len(digits)
}

func isHexID(b []byte) bool {
	if len(b) != buildIDDigits {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// MapBuildID returns the build ID of a frame of FormBuildID, text what it points into.
func MapBuildID(text []byte, f *tracefs.Frame) (id [buildIDDigits / 2]byte) {
	line := bytes.TrimLeft(text[f.Off:f.AddrEnd], " \t")
	if len(line) >= buildIDDigits {
		_, _ = hex.Decode(id[:], line[:buildIDDigits]) // its digits were looked at
	}
	return id
}

// opensMapStack reports whether a line begins a key or value of a map, so that the next one
// can be a stack: "@[", "@x[12,", "@[12]:".
func opensMapStack(line []byte) bool {
	line = bytes.TrimRight(line, " ")
	if len(line) == 0 {
		return false
	}
	return line[len(line)-1] == '[' || line[len(line)-1] == ',' || bytes.HasSuffix(line, []byte("]:"))
}

// mapCount reads the line after a stack, "]: 12" or ", comm]: 12".
func mapCount(line []byte) (uint64, bool) {
	at := bytes.LastIndex(line, []byte("]: "))
	if at < 0 || at > 0 && line[0] != ',' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(line[at+len("]: "):]), 10, 63)
	return n, err == nil
}

// MapFrame is an entry of a BPF stack map: an offset in the file with the build ID, or an
// address where IsAddress.
type MapFrame struct {
	BuildID   [buildIDDigits / 2]byte
	Value     uint64
	IsAddress bool
}

// AppendMapStack writes a stack of a BPF map as a Scanner reads it: key is the stack ID,
// count how often it was counted if counted.
func AppendMapStack(b []byte, key uint64, frames []MapFrame, count uint64, counted bool) []byte {
	b = strconv.AppendUint(append(b, "@["...), key, 10)
	if counted {
		b = append(b, ",\n"...)
	} else {
		b = append(b, "]:\n"...)
	}
	for i := range frames {
		b = append(b, "    "...)
		if !frames[i].IsAddress {
			b = append(hex.AppendEncode(b, frames[i].BuildID[:]), ' ')
		}
		b = append(strconv.AppendUint(append(b, "0x"...), frames[i].Value, 16), '\n')
	}
	if counted {
		b = append(strconv.AppendUint(append(b, "]: "...), count, 10), '\n')
	}
	return b
}
