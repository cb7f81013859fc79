package text

import (
	"bytes"
	"math/bits"
	"slices"

	"ustack/tracefs"
)

// fastMargin is how much text must be left for the fast path: the loads below
// need no other bounds check.
const fastMargin = 128

// mask keeps the first n bytes of a word.
func mask(n int) uint64 { return 1<<(8*n) - 1 }

// Words that lines and bodies begin with, as le64 loads them.
const (
	frameStart  = ' ' | '='<<8 | '>'<<16 | ' '<<24 | ' '<<32 | '<'<<40 // " =>  <"
	frameMiddle = '>' | ' '<<8 | ':'<<16 | ' '<<24 | '0'<<32 | 'x'<<40 // "> : 0x", after 16 digits
	cookieStart = 'c' | 'o'<<8 | 'o'<<16 | 'k'<<24 | 'i'<<32 | 'e'<<40 | '='<<48
	unwindStart = '<' | 'u'<<8 | 's'<<16 | 'e'<<24 | 'r'<<32 | ' '<<40 | 's'<<48 | 't'<<56
	unwindGoes  = 'a' | 'c'<<8 | 'k'<<16 | ' '<<24 | 'u'<<32 | 'n'<<40 | 'w'<<48 | 'i'<<56
	unwindEnds  = 'n' | 'd'<<8 | '>'<<16 | '\n'<<24
)

// fast takes as many lines as it can of the kinds that fill a trace of the hash
// dialect or of a stock kernel in its usual columns: events, cookies, stacks with
// their cookie lines and frames. It stops at the first other line, which is left to
// anyLine. It takes lines exactly as anyLine would (see FuzzFastAgainstSlow).
func (w *walk) fast() {
	s, b := w.s, w.b
	if s.columns == nil || s.clock.colon == 0 || s.slow {
		return
	}
	if w.o.stack == wantFrames || w.o.stack == wantCookie {
		w.hashFrames()
		w.plainFrames()
	}
	text, clock, i := b.Text, s.clock, w.i
	body := clock.colon + len(": ")
	end := min(w.stop, len(text)-fastMargin+1)
	var last *[fastMargin]byte // the header before
	var tid, cpu int32
	var events, lines int64
loop:
	for i < end {
		p := (*[fastMargin]byte)(text[i:])
		// Most headers follow one of the same task, with the same flags.
		if last == nil || !sameTask(p, last) {
			var ok bool
			if tid, cpu, ok = usualColumns(p); !ok || s.escaped && hasEscapes(p) {
				break
			}
			last = p
		}
		if !clock.same(p) {
			break
		}
		rest := (*[32]byte)(text[i+body:])
		switch first := le64(rest[:]); {
		case first&mask(7) == cookieStart:
			cookie, k := s.hex.cookie(rest[7:])
			if k == 0 {
				break loop
			}
			w.beginFast(tracefs.KindCookie, i, body, tid, cpu).Value = cookie
			i += body + 7 + k + 1
			lines++
		case first == unwindStart && le64(rest[8:]) == unwindGoes && le64(rest[16:])&mask(4) == unwindEnds:
			r := w.beginFast(tracefs.KindStack, i, body, tid, cpu)
			r.Flags = tracefs.Deferred
			w.o.stack = wantCookie
			w.i = i + body + 20
			lines++
			whole := w.stackCookie(r)
			if whole {
				w.knownFrames(r)
			}
			i = w.i
			if !whole {
				break loop
			}
		case isStock(first, rest):
			w.beginFast(tracefs.KindStack, i, body, tid, cpu)
			w.o.stack = wantFrames
			w.i = i + body + stockTitle
			lines++
			w.plainFrames()
			i = w.i
		case interesting[rest[0]]:
			break loop
		default:
			nl := bytes.IndexByte(text[i+body:], '\n')
			if nl < 0 {
				break loop
			}
			if s.Events {
				w.beginFast(tracefs.KindEvent, i, body, tid, cpu)
			} else {
				w.closeFast(i)
				w.o.kind, w.o.stack, w.o.start, w.o.rec, w.o.carried = tracefs.KindEvent, noFrames, i, -1, false
			}
			events++
			i += body + nl + 1
			lines++
		}
	}
	w.i = i
	b.Events += events
	b.Lines += lines
}

// stackCookie takes the "cookie=1a7700000003" that is the second line of a
// deferred stack.
func (w *walk) stackCookie(r *tracefs.Record) bool {
	text := w.b.Text
	if w.i+fastMargin > len(text) {
		return false
	}
	p := (*[fastMargin]byte)(text[w.i:])
	if le64(p[:])&mask(7) != cookieStart {
		return false
	}
	cookie, k := w.s.hex.cookie(p[7:])
	if k == 0 {
		return false
	}
	r.Value = cookie
	w.o.stack = wantFrames
	w.i += 7 + k + 1
	w.b.Lines++
	return true
}

// knownFrames takes the frames of a stack: as a template, or one by one.
func (w *walk) knownFrames(r *tracefs.Record) {
	s, from := w.s, w.i
	if s.templates == nil || from+fastMargin > len(w.b.Text) || le64(w.b.Text[from:])&mask(6) != frameStart {
		w.hashFrames()
		return
	}
	way, size, build := s.templates.find(w.b, from)
	if way != nil {
		r.Template, r.FrameText = way.index+1, uint32(from)
		w.o.stack = noFrames // none follows, find has looked
		w.i += size
		w.b.Lines += int64(way.lines)
		return
	}
	if w.hashFrames() && build {
		s.templates.add(w.b.Text, from, w.i, w.b.Frames[r.Lo:])
	}
}

// hashFrames takes frames of the hash dialect,
// " =>  <0000000000097d8c> : 0x9bcf40b4". It reports whether it stopped at
// something that is no frame.
func (w *walk) hashFrames() (all bool) {
	const addrText, digits = 22, 28
	text, frames, i := w.b.Text, w.b.Frames, w.i
	for i+fastMargin <= len(text) {
		p := (*[fastMargin]byte)(text[i:])
		first := le64(p[:])
		if first&mask(6) != frameStart {
			all = first&mask(4) != frameStart&mask(4)
			break
		}
		word := le64(p[digits:])
		k := lineFeedIn(word)
		if le64(p[addrText:])&mask(6) != frameMiddle || k == 0 || p[digits+k] != '\n' {
			break
		}
		if _, ok := hexWord(le64(p[6:]), 8); !ok {
			break
		}
		if _, ok := hexWord(le64(p[14:]), 8); !ok {
			break
		}
		hash, ok := w.s.hex.read(word, k)
		if !ok {
			break
		}
		off := uint32(i)
		frames = oneMore(frames)
		f := &frames[len(frames)-1]
		f.ID, f.Addr, f.HasAddr, f.Form = tracefs.HashIdentifier(hash), 0, false, tracefs.FormIdentifier
		f.Off, f.AddrEnd, f.End = off, off+addrText+1, off+digits+uint32(k)
		f.Unnote()
		i += digits + k + 1
		w.o.stack = wantFrames
	}
	w.b.Lines += int64(len(frames) - len(w.b.Frames))
	w.b.Frames, w.i = frames, i
	return all
}

// oneMore returns s with one element more. The caller must set all of its fields:
// they have values of an earlier batch. (A composite literal would be built on the
// stack and copied; it shows.)
func oneMore[T any](s []T) []T {
	if len(s) == cap(s) {
		s = slices.Grow(s, 1)
	}
	return s[:len(s)+1]
}

// beginFast closes the open record and begins one at i.
func (w *walk) beginFast(kind tracefs.Kind, i, body int, tid, cpu int32) *tracefs.Record {
	w.closeFast(i)
	b := w.b
	w.o.kind, w.o.stack, w.o.start, w.o.rec, w.o.carried = kind, noFrames, i, len(b.Records), false
	b.Records = oneMore(b.Records)
	r := &b.Records[len(b.Records)-1]
	r.Off, r.End, r.Body = uint32(i), 0, uint32(i+body)
	r.TID, r.CPU, r.Lo, r.Hi = tid, cpu, uint32(len(b.Frames)), uint32(len(b.Frames))
	r.Kind, r.Flags, r.Source, r.Value = kind, 0, 0, 0
	r.Item, r.Template, r.FrameText, r.Noted = 0, 0, 0, 0
	return r
}

// closeFast is close for the fast path.
func (w *walk) closeFast(i int) {
	if w.o.rec < 0 {
		return
	}
	r := &w.b.Records[w.o.rec]
	if r.Kind == tracefs.KindMappingEvent || w.o.unwound != nil {
		w.close(i)
		return
	}
	r.End, r.Hi = uint32(i), uint32(len(w.b.Frames))
}

// flagsEnd is where the five flag columns end: "%16s-%-7d [%03d] FFFFF".
const flagsEnd = 36

// sameTask reports whether two headers are the same up to the end of the flags.
func sameTask(p, q *[fastMargin]byte) bool {
	x := le64(p[16:]) ^ le64(q[16:])
	x |= le64(p[0:]) ^ le64(q[0:])
	x |= le64(p[8:]) ^ le64(q[8:])
	x |= le64(p[24:]) ^ le64(q[24:])
	return x|(le64(p[flagsEnd-8:])^le64(q[flagsEnd-8:])) == 0
}

// usualColumns reads a header up to the end of its five flags, if it is on one
// line and pid and CPU have their usual widths. Anything else is not ok.
func usualColumns(p *[fastMargin]byte) (tid, cpu int32, ok bool) {
	// " [000] " in one load; a digit's byte becomes 0 to 9.
	const frame = ' ' | '['<<8 | '0'<<16 | '0'<<24 | '0'<<32 | ']'<<40 | ' '<<48
	c := le64(p[24:])&mask(7) ^ frame
	bad := c&^0x0f0f0f0000 | (c+0x0606060000)&0x1010100000
	// "%-7d ": digits, then blanks. x has 0x10 set in each digit's byte.
	x := le64(p[commWidth+1:]) ^ ' '*ones
	k := bits.TrailingZeros64(^x&(0x10*ones)) >> 3
	bad |= x&^(0x1f*ones>>(64-8*k)) | (x&(0x0f*ones)+6*ones)&(0x10*ones)
	bad |= uint64(p[commWidth] ^ '-')
	if lineFeedIn(le64(p[0:])) < 8 || lineFeedIn(le64(p[8:])) < 8 {
		return 0, 0, false // in the comm
	}
	if bad != 0 || k == 0 || !allFlags(le64(p[flagsEnd-5:])) {
		return 0, 0, false
	}
	cpu = int32(c>>16&15)*100 + int32(c>>24&15)*10 + int32(c>>32&15)
	tid = int32(decimalWord(x, k))
	return tid, cpu, tid <= tracefs.MaxTID
}

// hasEscapes reports whether the comm can have escapes: then it may be longer.
func hasEscapes(p *[fastMargin]byte) bool {
	x, y := le64(p[0:])^'\\'*ones, le64(p[8:])^'\\'*ones
	return ((x-ones)&^x|(y-ones)&^y)&highs != 0
}

// allFlags reports whether the first five bytes of a word are neither blank nor
// control characters.
func allFlags(w uint64) bool {
	w |= ^mask(5)
	return (w-('!'*ones))&^w&highs == 0
}

// clock is the part that the time of one header, read the long way, shares with the
// following ones. The text between the flags and the microseconds, "     3.",
// changes once a second.
type clock struct {
	colon       int // where the time ends, 0 if unknown
	first, last uint64
	// The bytes of first, from the flags on, and of last, up to the
	// microseconds, that count.
	firstMask, lastMask uint64
	second              tracefs.Time // that all of them are in
}

// newClock learns from a header that ends with a colon.
func newClock(text []byte, colon int) (c clock) {
	n := colon - len("000000") - flagsEnd
	if n < 2 || n > 16 || text[flagsEnd] != ' ' || text[flagsEnd+n-1] != '.' || text[25] != '[' || len(text) < fastMargin {
		return clock{}
	}
	c.colon, c.firstMask = colon, mask(min(n, 8))
	c.first = le64(text[flagsEnd:]) & c.firstMask
	if n > 8 {
		c.last, c.lastMask = le64(text[flagsEnd+n-8:]), ^uint64(0)
	}
	c.second = parseStamp(text[:colon]) / second * second
	return c
}

const second tracefs.Time = 1e9

// timed notes the time of a header that was read the long way. At the beginning of
// a scan it is the clock's time, if there is one.
func (w *walk) timed(c *clock) {
	b := w.b
	switch {
	case c.colon == 0 || w.timeless:
		w.timeless = true
		b.Early, b.Late = 0, 0
	case b.Late == 0:
		b.Early, b.Late = c.second, c.second+second
	default:
		b.Early, b.Late = min(b.Early, c.second), max(b.Late, c.second+second)
	}
}

// same reports whether a header has a time of the same second, and ends with it.
func (c *clock) same(p *[fastMargin]byte) bool {
	colon := c.colon & 63
	differ := (le64(p[flagsEnd:])^c.first)&c.firstMask | (le64(p[colon-14:])^c.last)&c.lastMask
	const micros = '0'*ones&(1<<48-1) | ':'<<48 | ' '<<56
	x := le64(p[colon-6:]) ^ micros
	return differ|(x|(x+0x060606060606))&0xfffff0f0f0f0f0f0 == 0
}
