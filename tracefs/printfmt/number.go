package printfmt

import "strconv"

// spec is one conversion of a format string.
type spec struct {
	minus, plus, blank, alt, zero bool
	// width and precision are -1 if there is none.
	width, precision int
	// bits is the size of the argument by the length modifier.
	bits uint8
	verb byte
	// sub are the letters after %p.
	sub string
}

// maxWidth bounds what a format can ask for: no record's text is longer.
const maxWidth = 8 << 10

const lowerDigits = "0123456789abcdef"

// appendHex appends the digits of a number.
func appendHex(b []byte, v uint64) []byte {
	if v < 16 {
		return append(b, lowerDigits[v])
	}
	return strconv.AppendUint(b, v, 16)
}

func appendHexBytes(b, data []byte, between string) []byte {
	for i, c := range data {
		if i > 0 {
			b = append(b, between...)
		}
		b = append(b, lowerDigits[c>>4], lowerDigits[c&15])
	}
	return b
}

func pad(b []byte, c byte, n int) []byte {
	for ; n > 0; n-- {
		b = append(b, c)
	}
	return b
}

// appendNumber is number() of lib/vsprintf.c.
func (s *spec) appendNumber(b []byte, v uint64) []byte {
	base, signed := 10, false
	switch s.verb {
	case 'd', 'i':
		signed = true
	case 'x', 'X':
		base = 16
	case 'o':
		base = 8
	}
	v = ctype{bits: s.bits, signed: signed}.fit(v)
	sign := byte(0)
	if signed {
		switch {
		case int64(v) < 0:
			sign, v = '-', -v
		case s.plus:
			sign = '+'
		case s.blank:
			sign = ' '
		}
	}
	if s.width <= 0 && s.precision < 0 && sign == 0 && !s.alt {
		if base == 16 && s.verb == 'x' {
			return appendHex(b, v)
		}
		if base == 10 {
			return strconv.AppendUint(b, v, 10)
		}
	}
	var room [24]byte
	digits := strconv.AppendUint(room[:0], v, base)
	if s.verb == 'X' {
		for i, c := range digits {
			if c >= 'a' {
				digits[i] = c - 'a' + 'A'
			}
		}
	}
	prefix := ""
	switch {
	case !s.alt || base == 10:
	case base == 16 && s.verb == 'X':
		prefix = "0X"
	case base == 16:
		prefix = "0x"
	case v != 0:
		prefix = "0"
	}
	precision := max(s.precision, len(digits))
	width := s.width - precision - len(prefix)
	if sign != 0 {
		width--
	}
	zero := s.zero && !s.minus
	if !zero && !s.minus {
		b = pad(b, ' ', width)
	}
	if sign != 0 {
		b = append(b, sign)
	}
	b = append(b, prefix...)
	if zero {
		b = pad(b, '0', width)
	}
	b = pad(b, '0', precision-len(digits))
	b = append(b, digits...)
	if s.minus {
		b = pad(b, ' ', width)
	}
	return b
}

// appendChar is %c.
func (s *spec) appendChar(b []byte, v uint64) []byte {
	if !s.minus {
		b = pad(b, ' ', s.width-1)
	}
	b = append(b, byte(v))
	if s.minus {
		b = pad(b, ' ', s.width-1)
	}
	return b
}

// fitText applies precision and width to the text b[from:], just appended.
func (s *spec) fitText(b []byte, from int) []byte {
	if s.precision >= 0 && len(b)-from > s.precision {
		b = b[:from+s.precision]
	}
	n := s.width - (len(b) - from)
	if n <= 0 {
		return b
	}
	end := len(b)
	b = pad(b, ' ', n)
	if !s.minus {
		copy(b[from+n:], b[from:end])
		for i := range n {
			b[from+i] = ' '
		}
	}
	return b
}
