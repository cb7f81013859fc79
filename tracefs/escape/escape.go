package escape

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// size is the length of an escape.
const size = len(`\012`)

// Every byte of a word set to one value.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain reports whether eight bytes are printable ASCII without a backslash.
func plain(w uint64) bool {
	return (w|(w-' '*ones)|(w+ones)|((w^'\\'*ones)-ones))&highs == 0
}

// First bytes of characters of UTF-8 some of which are escaped: U+0080 to U+00bf,
// U+2000 to U+2fff, U+0600 to U+063f.
const (
	lead0080 = 0xc2
	lead2000 = 0xe2
	lead0600 = 0xd8
)

// doubtful has the highest bit set in the first byte of a word, the lowest one
// first, that is a control character, a backslash or begins a character that may be
// one to escape, and perhaps in later bytes.
func doubtful(w uint64) uint64 {
	control := (w - ' '*ones) &^ w
	found := control
	for _, c := range [...]uint64{0x7f, '\\', lead0080, lead2000, lead0600} {
		same := w ^ c*ones
		found |= (same - ones) &^ same
	}
	return found & highs
}

// Index returns where the first byte of text stands that must be escaped, -1 if
// there is none. It looks at eight bytes at a time.
func Index(text []byte) int {
	rest := text
	for {
		for len(rest) >= 16 && plain(binary.LittleEndian.Uint64(rest)) && plain(binary.LittleEndian.Uint64(rest[8:])) {
			rest = rest[16:]
		}
		if len(rest) >= 8 {
			found := doubtful(binary.LittleEndian.Uint64(rest))
			if found == 0 {
				rest = rest[8:]
				continue
			}
			rest = rest[bits.TrailingZeros64(found)>>3:]
		}
		if len(rest) == 0 || len(rest) < 8 && len(text) >= 8 && plain(binary.LittleEndian.Uint64(text[len(text)-8:])) {
			return -1
		}
		if Width(rest) > 0 {
			return len(text) - len(rest)
		}
		rest = rest[1:]
	}
}

// Width returns how many bytes at the beginning of text are one character that must be
// escaped, 0 if it need not be.
func Width(text []byte) int {
	switch c := text[0]; {
	case c < ' ' || c == 0x7f || c == '\\' && spelled(text):
		return 1
	case c != lead0080 && c != lead2000 && c != lead0600:
		return 0
	}
	if r, n := utf8.DecodeRune(text); Acts(r) {
		return n
	}
	return 0
}

// Acts reports whether a terminal acts on a character: controls (Unicode's category Cc)
// and those that change the direction of text (Bidi_Control in its PropList.txt).
func Acts(r rune) bool {
	switch {
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}

// spelled reports whether text begins with an escape.
func spelled(text []byte) bool {
	return len(text) >= size && text[0] == '\\' && text[1]-'0' <= 3 && text[2]-'0' <= 7 && text[3]-'0' <= 7
}

// value returns the byte that an escape stands for.
func value(text []byte) byte { return (text[1]-'0')<<6 + (text[2]-'0')<<3 + (text[3] - '0') }

// AppendByte appends a byte as an escape, whatever it is.
func AppendByte(b []byte, c byte) []byte {
	return append(b, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
}

// Append appends text with all escaped that must be.
func Append(b, text []byte) []byte {
	for {
		n := Index(text)
		if n < 0 {
			return append(b, text...)
		}
		b = append(b, text[:n]...)
		text = text[n:]
		width := Width(text)
		for _, c := range text[:width] {
			b = AppendByte(b, c)
		}
		text = text[width:]
	}
}

// Tail escapes what stands in b from a place on.
func Tail(b []byte, from int) []byte {
	n := Index(b[from:])
	if n < 0 {
		return b
	}
	from += n
	return Append(b[:from], bytes.Clone(b[from:]))
}

// Undo takes escapes back. It returns text itself if there are none.
func Undo(text []byte) []byte {
	n := bytes.IndexByte(text, '\\')
	if n < 0 {
		return text
	}
	return appendUndone(make([]byte, 0, len(text)), text)
}

// appendUndone appends text with its escapes taken back. A backslash that begins
// none stays.
func appendUndone(b, text []byte) []byte {
	for {
		n := bytes.IndexByte(text, '\\')
		if n < 0 {
			return append(b, text...)
		}
		b, text = append(b, text[:n]...), text[n:]
		if spelled(text) {
			b, text = append(b, value(text)), text[size:]
			continue
		}
		b, text = append(b, '\\'), text[1:]
	}
}

// Len returns how many bytes of text stand for the first n bytes of what it is
// undone, -1 if it has not so many.
func Len(text []byte, n int) int {
	if len(text) >= n && bytes.IndexByte(text[:n], '\\') < 0 {
		return n
	}
	at := 0
	for range n {
		switch {
		case at == len(text):
			return -1
		case spelled(text[at:]):
			at += size
		default:
			at++
		}
	}
	return at
}
