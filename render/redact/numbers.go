package redact

import (
	"bytes"
	"strings"
)

// Numbers from firstAddress on are taken for addresses, up to the errors that
// system calls return as 64 bits (MAX_ERRNO in include/linux/err.h).
const (
	firstAddress = 1 << 32
	firstError   = 1<<64 - 4096
)

// LooksLikeAddress reports whether a number is taken for an address.
func LooksLikeAddress(v uint64) bool { return v >= firstAddress && v < firstError }

// parseHex reads hexadecimal digits, at most 16 and nothing else.
func parseHex(b []byte) (v uint64, ok bool) {
	const most = 16
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, len(b) > 0 && len(b) <= most
}

// isDecimal reports whether b is a decimal number with or without a sign, a
// fraction and a unit.
func isDecimal(b []byte) bool {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	n := digits(b)
	if n == 0 || n > 20 {
		return false
	}
	b = b[n:]
	if len(b) > 1 && b[0] == '.' {
		if n = digits(b[1:]); n == 0 || n > 9 {
			return false
		}
		b = b[1+n:]
	}
	switch string(b) {
	case "", "ns", "us", "µs", "ms", "s", "%":
		return true
	}
	return false
}

func digits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}

// number takes a number, and reports false if the word is none. key is the name
// of the field that it stands in, "" for none; bare, that hexadecimal numbers
// need no 0x there (system calls before Linux 6.18).
func (g *grammar) number(key string, word []byte, bare bool) bool {
	const wide = 16 // digits of %p and %016lx
	hex, prefixed := bytes.CutPrefix(word, []byte("0x"))
	v, ok := parseHex(hex)
	switch {
	case ok && (prefixed || bare || len(hex) == wide):
		g.value(key, word, v)
	case isDecimal(word):
		g.out.keep(word)
	default:
		return false
	}
	return true
}

// value takes a number that can be an address.
func (g *grammar) value(key string, word []byte, v uint64) {
	switch {
	case isAddressKey(key) && v != 0:
		g.out.address(word, v)
	case narrow(key) && v >= firstAddress && v < firstError:
		g.out.narrow(word, v)
	case LooksLikeAddress(v):
		g.out.address(word, v)
	default:
		g.out.keep(word)
	}
}

// appendSameForm writes a number as the one was whose place it takes: with 0x or
// without.
func appendSameForm(b, word []byte, v uint64) []byte {
	const hexDigits = "0123456789abcdef"
	if strings.HasPrefix(string(word), "0x") {
		b = append(b, "0x"...)
	}
	shift := 60
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&15])
	}
	return b
}
