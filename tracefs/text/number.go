package text

import (
	"encoding/binary"
	"math/bits"
)

// le64 loads eight bytes so that the first byte of the text is the lowest.
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Every byte of a word set to one value.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// lineFeedIn returns how many bytes of the word stand before its first line
// feed, 8 if it has none.
func lineFeedIn(w uint64) int {
	x := w ^ '\n'*ones
	return bits.TrailingZeros64((x-ones)&^x&highs) >> 3
}

// hexWord reads the first n bytes (1 to 8) of a word as lower case
// hexadecimal digits.
func hexWord(w uint64, n int) (v uint64, ok bool) {
	// Move the last digit to the highest byte and fill up with zeros in
	// front, so that the text is always eight digits long. (Go shifts by 64
	// give 0.)
	w = w<<(64-8*n) | ('0'*ones)>>(8*n)
	letter := w >> 6 & ones // 1 in each byte that may be a letter
	v = w&(0x0f*ones) + 9*letter
	// A digit has the value 0 to 9, a letter 10 to 15, and both must spell
	// the byte that they came from.
	spells := v + '0'*ones + ('a'-'0'-10)*letter ^ w
	ok = spells|((v+6*ones)>>4^letter|v>>4)&ones == 0
	v = v<<4 | v>>8
	v &= 0x00ff00ff00ff00ff
	v = v<<8 | v>>16
	v &= 0x0000ffff0000ffff
	v = v<<16 | v>>32
	return v & 0xffffffff, ok
}

// A hexCache remembers words that hexWord has read: hashes and CPUs are few.
type hexCache struct {
	slots [256]hexSlot
	last8 [16]hexSlot // by the last digit
}

type hexSlot struct {
	word  uint64
	value uint32
	n     uint8
}

// read is hexWord for the first n bytes of word.
func (c *hexCache) read(word uint64, n int) (uint64, bool) {
	word &= 1<<(8*n) - 1
	slot := &c.slots[word*0x9e3779b97f4a7c15>>56]
	if slot.word == word && int(slot.n) == n {
		return uint64(slot.value), true
	}
	return slot.fill(word, n)
}

func (s *hexSlot) fill(word uint64, n int) (uint64, bool) {
	v, ok := hexWord(word, n)
	if ok {
		s.word, s.value, s.n = word, uint32(v), uint8(n)
	}
	return v, ok
}

// cookie reads 1 to 16 hexadecimal digits that a line feed ends, n is their
// number, 0 if there is something else. The last eight digits are the CPU in
// the cookies of all known kernels, so they are looked up. b must have 24
// bytes.
func (c *hexCache) cookie(b []byte) (v uint64, n int) {
	b = b[:24]
	first := le64(b)
	n = lineFeedIn(first)
	if n < 8 {
		if n == 0 {
			return 0, 0
		}
		v, ok := hexWord(first, n)
		if !ok {
			return 0, 0
		}
		return v, n
	}
	n = 8 + lineFeedIn(le64(b[8:]))
	if b[n] != '\n' {
		return 0, 0
	}
	word := le64(b[n-8:])
	slot := &c.last8[word>>56&15]
	low := uint64(slot.value)
	if slot.word != word || slot.n != 8 {
		var ok bool
		if low, ok = slot.fill(word, 8); !ok {
			return 0, 0
		}
	}
	if n == 8 {
		return low, n
	}
	high, ok := hexWord(first, n-8)
	if !ok {
		return 0, 0
	}
	return high<<32 | low, n
}

// decimalWord reads the first n bytes (1 to 8) of a word, already known to be
// decimal digits.
func decimalWord(w uint64, n int) uint64 {
	v := w & (0x0f * ones) << (64 - 8*n)
	v = (v*10 + v>>8) & 0x00ff00ff00ff00ff
	v = (v*100 + v>>16) & 0x0000ffff0000ffff
	return (v*10000 + v>>32) & 0xffffffff
}

// parseHex reads lower case hexadecimal digits at the beginning of b and
// returns how many there were, 0 also when they do not fit 64 bits.
func parseHex(b []byte) (v uint64, n int) {
	for n < len(b) {
		c := b[n]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return v, n
		}
		if v>>60 != 0 {
			return 0, 0
		}
		v = v<<4 | uint64(c)
		n++
	}
	return v, n
}

// parseDec reads decimal digits like parseHex.
func parseDec(b []byte) (v uint64, n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		if v > (1<<64-1)/10-1 {
			return 0, 0
		}
		v = v*10 + uint64(b[n]-'0')
		n++
	}
	return v, n
}
