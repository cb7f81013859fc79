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
var (
	frameStart  = le64([]byte(" =>  <\x00\x00")) // six bytes
	frameMiddle = le64([]byte("> : 0x\x00\x00")) // six bytes, behind 16 digits
	cookieStart = le64([]byte("cookie=\x00"))    // seven bytes
	unwindStart = [...]uint64{le64([]byte("<user st")), le64([]byte("ack unwi")), le64([]byte("nd>\n\x00\x00\x00\x00"))}
)

// fast takes as many lines as it can of the kinds that fill a trace of the
// hash dialect or of a stock kernel in its usual columns: events, cookies, stacks
// with their cookie lines and frames. It stops at the first line that needs a closer look, which
// is for anyLine to say. What it takes it takes exactly as anyLine would (see
// FuzzFastAgainstSlow).
func (w *walk) fast() {
	s, b := w.s, w.b
	colon := s.colon
	if s.columns == nil || len(s.seconds) == 0 || colon > 64 || s.slow {
		return
	}
	if w.o.stack == wantFrames || w.o.stack == wantCookie {
		w.hashFrames()
		w.plainFrames()
	}
	text, body := b.Text, colon+2
	for w.i+fastMargin <= len(text) {
		i := w.i
		p := (*[fastMargin]byte)(text[i:])
		tid, cpu, ok := usualColumns(p, colon)
		if !ok || string(p[flagsEnd:colon-7]) != string(s.seconds) || !allFlags(le64(p[flagsEnd-5:])) {
			return
		}
		rest := (*[32]byte)(text[i+body:])
		switch first := le64(rest[:]); {
		case first&mask(7) == cookieStart:
			cookie, k := s.hex.cookie(rest[7:])
			if k == 0 {
				return
			}
			w.beginFast(tracefs.KindCookie, body, tid, cpu).Value = cookie
			w.i = i + body + 7 + k + 1
		case first == unwindStart[0] && le64(rest[8:]) == unwindStart[1] && le64(rest[16:])&mask(4) == unwindStart[2]:
			r := w.beginFast(tracefs.KindStack, body, tid, cpu)
			r.Flags = tracefs.Deferred
			w.o.stack = wantCookie
			w.i = i + body + 20
			if !w.stackCookie(r) {
				return
			}
			w.knownFrames(r)
		case isStock(first, rest):
			w.beginFast(tracefs.KindStack, body, tid, cpu)
			w.o.stack = wantFrames
			w.i = i + body + stockTitle
			w.plainFrames()
		case interesting[rest[0]]:
			return
		default:
			nl := bytes.IndexByte(text[i+body:], '\n')
			if nl < 0 {
				return
			}
			if s.Events {
				w.beginFast(tracefs.KindEvent, body, tid, cpu)
			} else {
				w.closeFast()
				w.o.kind, w.o.stack, w.o.start, w.o.rec, w.o.carried = tracefs.KindEvent, noFrames, i, -1, false
			}
			b.Events++
			w.i = i + body + nl + 1
		}
	}
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
	return true
}

// knownFrames takes the frames of a stack: as a shape, or one by one.
func (w *walk) knownFrames(r *tracefs.Record) {
	s, from := w.s, w.i
	if s.shapes == nil || from+fastMargin > len(w.b.Text) || le64(w.b.Text[from:])&mask(6) != frameStart {
		w.hashFrames()
		return
	}
	sh, index, build := s.shapes.find(w.b, from)
	if sh != nil {
		r.Shape, r.Lo = index+1, uint32(from)
		w.o.stack = noFrames // none follows, find has looked
		w.i += len(sh.Text)
		return
	}
	if w.hashFrames() && build {
		s.shapes.add(w.b.Text, from, w.i, w.b.Frames[r.Lo:])
	}
}

// hashFrames takes frames of the hash dialect,
// " =>  <0000000000097d8c> : 0x9bcf40b4". It reports whether it stopped at
// something that is no frame.
func (w *walk) hashFrames() (all bool) {
	const stem, digits = 22, 28
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
		if le64(p[stem:])&mask(6) != frameMiddle || k == 0 || p[digits+k] != '\n' {
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
		f.Off, f.Stem, f.End = off, off+stem+1, off+digits+uint32(k)
		i += digits + k + 1
		w.o.stack = wantFrames
	}
	w.b.Frames, w.i = frames, i
	return all
}

// oneMore returns s with one element more, whose fields are for the caller to
// set: all of them, what stands there is of an earlier batch. (A composite
// literal would be built on the stack and copied; it shows.)
func oneMore[T any](s []T) []T {
	if len(s) == cap(s) {
		s = slices.Grow(s, 1)
	}
	return s[:len(s)+1]
}

// beginFast closes the open record and begins one here.
func (w *walk) beginFast(kind tracefs.Kind, body int, tid, cpu int32) *tracefs.Record {
	w.closeFast()
	b := w.b
	w.o.kind, w.o.stack, w.o.start, w.o.rec, w.o.carried = kind, noFrames, w.i, len(b.Records), false
	b.Records = oneMore(b.Records)
	r := &b.Records[len(b.Records)-1]
	r.Off, r.End, r.Body = uint32(w.i), 0, uint32(w.i+body)
	r.TID, r.CPU, r.Lo, r.Hi = tid, cpu, uint32(len(b.Frames)), uint32(len(b.Frames))
	r.Kind, r.Flags, r.Source, r.Value, r.Shape = kind, 0, 0, 0, 0
	return r
}

// closeFast is close without detours.
func (w *walk) closeFast() {
	if w.o.rec < 0 {
		return
	}
	r := &w.b.Records[w.o.rec]
	if r.Kind == tracefs.KindAnnounce {
		w.close(w.i)
		return
	}
	r.End, r.Hi = uint32(w.i), uint32(len(w.b.Frames))
}

// flagsEnd is where the five flag columns end. What stands between them and
// the microseconds, "     3.", changes once a second; it is read the long way
// then, and compared ever after.
const flagsEnd = 36

// remember notes the seconds of a header that was read the long way.
func (s *Scanner) remember(text []byte, h header) {
	s.colon = h.body - len(": ")
	s.seconds = s.seconds[:0]
	if s.colon-7 > flagsEnd && text[flagsEnd] == ' ' && text[25] == '[' && text[s.colon-7] == '.' {
		s.seconds = append(s.seconds, text[flagsEnd:s.colon-7]...)
	}
}

// allFlags reports whether the first five bytes of a word are neither blank nor
// control characters.
func allFlags(w uint64) bool {
	w |= ^mask(5)
	return (w-('!'*ones))&^w&highs == 0
}

// usualColumns reads a header whose pid and CPU have their usual widths and
// whose time ends where that of the last header ended: "%16s-%-7d [%03d] ",
// then six digits and ": " at colon. Anything else is not ok.
func usualColumns(p *[fastMargin]byte, colon int) (tid, cpu int32, ok bool) {
	if p[commWidth] != '-' {
		return 0, 0, false
	}
	// " [000] " in one load; a digit's byte becomes 0 to 9.
	const frame = ' ' | '['<<8 | '0'<<16 | '0'<<24 | '0'<<32 | ']'<<40 | ' '<<48
	c := le64(p[24:])&mask(7) ^ frame
	if c&^0x0f0f0f0000 != 0 || (c+0x0606060000)&0x1010100000 != 0 {
		return 0, 0, false
	}
	// "%-7d ": digits, then blanks. x has 0x10 set in each digit's byte.
	x := le64(p[commWidth+1:]) ^ ' '*ones
	k := bits.TrailingZeros64(^x&(0x10*ones)) >> 3
	if k == 0 || x&^(0x1f*ones>>(64-8*k)) != 0 || (x&(0x0f*ones)+6*ones)&(0x10*ones) != 0 {
		return 0, 0, false
	}
	q := p[colon-8 : colon+2]
	if q[8] != ':' || q[9] != ' ' || q[1] != '.' || !sixDigits(le64(q)) {
		return 0, 0, false
	}
	cpu = int32(c>>16&15)*100 + int32(c>>24&15)*10 + int32(c>>32&15)
	tid = int32(decimalWord(x, k))
	return tid, cpu, tid <= tracefs.MaxTID
}
