package printfmt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// kinds of token.
type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokName
	tokNumber
	tokString // text is what it spells
	tokPunct
)

type token struct {
	kind tokenKind
	text string
	num  uint64
	// typ of a number.
	typ ctype
}

// maxTokens bounds the work for one print fmt; the largest known have 4000.
const maxTokens = 1 << 16

var errTokens = errors.New("it is too long")

// tokens takes C apart. Strings that stand side by side are one.
func tokens(src string) ([]token, error) {
	var out []token
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			i++
			continue
		case isLetter(c):
			n := i
			for i < len(src) && (isLetter(src[i]) || isDigit(src[i])) {
				i++
			}
			out = append(out, token{kind: tokName, text: src[n:i]})
		case isDigit(c):
			n := i
			for i < len(src) && (isLetter(src[i]) || isDigit(src[i])) {
				i++
			}
			t, err := number(src[n:i])
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		case c == '"' || c == '\'':
			text, n, err := literal(src[i:])
			if err != nil {
				return nil, err
			}
			i += n
			switch {
			case c == '\'' && len(text) != 1:
				return nil, fmt.Errorf("%.20q is no character", text)
			case c == '\'':
				out = append(out, token{kind: tokNumber, num: uint64(text[0]), typ: ctype{bits: 32, signed: true}})
			case len(out) > 0 && out[len(out)-1].kind == tokString:
				out[len(out)-1].text += text
			default:
				out = append(out, token{kind: tokString, text: text})
			}
		default:
			n := 1
			if i+1 < len(src) && strings.Contains(" -> << >> <= >= == != && || ", " "+src[i:i+2]+" ") {
				n = 2
			}
			out = append(out, token{kind: tokPunct, text: src[i : i+n]})
			i += n
		}
		if len(out) > maxTokens {
			return nil, errTokens
		}
	}
	return out, nil
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c-'0' <= 9 }

// number reads an integer constant with its suffix (C11 6.4.4.1).
func number(text string) (token, error) {
	digits := strings.TrimRight(text, "uUlL")
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.ContainsAny(digits, "_oO") {
		return token{}, fmt.Errorf("%.40q is no number", text)
	}
	suffix := strings.ToLower(text[len(digits):])
	unsigned := strings.Contains(suffix, "u")
	decimal := digits[0] != '0'
	t := ctype{bits: 32, signed: !unsigned}
	if strings.Contains(suffix, "l") {
		t.bits = 64 // the print fmt of 32-bit kernels is evaluated in 64 bits
	}
	if t.bits == 32 && v > 1<<31-1 && !unsigned {
		if decimal || v > 1<<32-1 {
			t.bits = 64
		} else {
			t.signed = false
		}
	}
	if t.bits == 32 && v > 1<<32-1 {
		t.bits = 64
	}
	if t.bits == 64 && t.signed && v > 1<<63-1 {
		t.signed = false
	}
	return token{kind: tokNumber, num: v, typ: t}, nil
}

// literal reads a string or character constant and returns its length in the
// source.
func literal(src string) (text string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(src); i++ {
		switch c := src[i]; {
		case c == src[0]:
			return b.String(), i + 1, nil
		case c == '\\' && i+1 < len(src):
			v, n := escape(src[i+1:])
			b.WriteByte(v)
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, errors.New("a string has no end")
}

// escape reads what follows a backslash.
func escape(s string) (v byte, n int) {
	if at := strings.IndexByte("abfnrtv", s[0]); at >= 0 {
		return "\a\b\f\n\r\t\v"[at], 1
	}
	digits, base := s[:min(3, len(s))], 8
	if s[0] == 'x' {
		digits, base = s[1:min(3, len(s))], 16
	}
	for len(digits) > 0 {
		if u, err := strconv.ParseUint(digits, base, 8); err == nil {
			n = len(digits)
			if base == 16 {
				n++
			}
			return byte(u), n
		}
		digits = digits[:len(digits)-1]
	}
	return s[0], 1
}
