package printfmt

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
)

// pointerSpecs are the supported letters after %p, longer ones
// first (pointer() in lib/vsprintf.c).
var pointerSpecs = [...]string{
	"ISpfsc", "ISpfc", "ISpsc", "ISpc", "ISp", "ISc", "IS",
	"I6c", "I6", "i6", "I4", "i4", "Mm", "MR", "MF", "M", "mR", "m",
	"UL", "UB", "Ul", "Ub", "U", "hC", "hD", "hN", "h", "bl", "b",
	"SR", "SB", "Sb", "S", "sR", "s", "B", "x", "K",
}

// bindPointer checks the argument of a %p.
func bindPointer(s *step, arg value) error {
	switch s.spec.sub {
	case "", "x", "K", "S", "SR", "SB", "Sb", "s", "sR", "B":
		if arg.num == nil {
			return fmt.Errorf("%%p%s of an argument that is not a number", s.spec.sub)
		}
		s.num = arg.num
		return nil
	}
	if arg.mem == nil {
		return fmt.Errorf("%%p%s of what is not in the record", s.spec.sub)
	}
	mem, sub := arg.mem, s.spec.sub
	width := s.width
	fixed := s.spec.width
	s.width, s.spec.width = nil, -1
	length := func(e *Env) int {
		if width != nil {
			return bound(width(e))
		}
		return fixed
	}
	s.str = func(e *Env, b []byte) []byte {
		return e.appendMemory(b, sub, mem(e), length(e))
	}
	if sub[0] != 'h' && sub[0] != 'b' {
		s.width, s.spec.width = width, fixed
	}
	return nil
}

// appendPointer prints an address: as a symbol, or as it is. The kernel hashes
// addresses in its text unless the option hash-ptr is off; the record has the
// address itself.
func (e *Env) appendPointer(b []byte, s *spec, st *step) []byte {
	addr := st.num(e)
	switch s.sub {
	case "", "x", "K":
		n := spec{width: s.width, precision: s.precision, minus: s.minus, zero: s.zero, alt: s.alt, bits: 64, verb: 'x'}
		if n.width < 0 {
			n.width, n.zero = 2*e.LongSize, true
		}
		return n.appendNumber(b, addr)
	}
	from := len(b)
	b = e.appendSymbol(b, addr, s.sub[0] != 's')
	return s.fitText(b, from)
}

// appendSymbol appends the name of a kernel address, or the address.
func (e *Env) appendSymbol(b []byte, addr uint64, offset bool) []byte {
	if e.Symbol != nil {
		if out, ok := e.Symbol(b, addr, offset); ok {
			return out
		}
	}
	return appendHex(append(b, "0x"...), addr)
}

// appendMemory prints memory that a pointer points to.
func (e *Env) appendMemory(b []byte, sub string, mem []byte, length int) []byte {
	need := func(n int) bool { return len(mem) >= n }
	switch sub[0] {
	case 'I', 'i':
		switch {
		case sub[1] == 'S':
			return e.appendSocket(b, sub[2:], mem)
		case sub[1] == '4' && need(4) && sub[0] == 'I':
			return netip.AddrFrom4([4]byte(mem)).AppendTo(b)
		case sub[1] == '4' && need(4):
			return fmt.Appendf(b, "%03d.%03d.%03d.%03d", mem[0], mem[1], mem[2], mem[3])
		case sub[1] == '6' && need(16):
			return appendIP6(b, [16]byte(mem), sub)
		}
	case 'M', 'm':
		if need(6) {
			return appendMAC(b, sub, [6]byte(mem))
		}
	case 'U':
		if need(16) {
			return appendUUID(b, sub, [16]byte(mem))
		}
	case 'h':
		between := map[string]string{"h": " ", "hC": ":", "hD": "-", "hN": ""}[sub]
		switch {
		case length == 0:
			return b
		case length < 0: // no width
			length = 1
		}
		return appendHexBytes(b, mem[:min(len(mem), length, 64)], between)
	case 'b':
		n := min(max(0, length), 8*len(mem))
		if sub == "bl" {
			return e.appendBitList(b, mem, n)
		}
		return e.appendBitmap(b, mem, n)
	}
	return append(b, "(efault)"...)
}

// appendIP6 is %pI6 and %pI6c: in full, or as RFC 5952 has it.
func appendIP6(b []byte, ip [16]byte, sub string) []byte {
	if sub == "I6c" {
		addr := netip.AddrFrom16(ip)
		if addr.Is4In6() {
			return addr.Unmap().AppendTo(append(b, "::ffff:"...))
		}
		return addr.AppendTo(b)
	}
	for i := 0; i < 16; i += 2 {
		if i > 0 && sub[0] == 'I' {
			b = append(b, ':')
		}
		b = appendHexBytes(b, ip[i:i+2], "")
	}
	return b
}

// Address families (include/linux/socket.h).
const (
	familyIP4 = 2
	familyIP6 = 10
)

// appendSocket is %pIS with its letters: p port, c compressed.
func (e *Env) appendSocket(b []byte, letters string, mem []byte) []byte {
	port, compressed := false, false
	for _, c := range letters {
		port = port || c == 'p'
		compressed = compressed || c == 'c'
	}
	if len(mem) < 4 {
		return append(b, "(efault)"...)
	}
	number := int(mem[2])<<8 | int(mem[3])
	switch family := e.number(mem, 2, false); {
	case family == familyIP4 && len(mem) >= 8:
		b = netip.AddrFrom4([4]byte(mem[4:])).AppendTo(b)
	case family == familyIP6 && len(mem) >= 24:
		if port {
			b = append(b, '[')
		}
		sub := "I6"
		if compressed {
			sub = "I6c"
		}
		b = appendIP6(b, [16]byte(mem[8:]), sub)
		if port {
			b = append(b, ']')
		}
	default:
		return append(b, "(einval)"...)
	}
	if port {
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(number), 10)
	}
	return b
}

// appendMAC is %pM (colons), %pMF (dashes), %pm (nothing), R for reversed.
func appendMAC(b []byte, sub string, mac [6]byte) []byte {
	if len(sub) > 1 && sub[1] == 'R' {
		for i := range 3 {
			mac[i], mac[5-i] = mac[5-i], mac[i]
		}
	}
	between := ":"
	switch {
	case sub[0] == 'm':
		between = ""
	case sub == "MF":
		between = "-"
	}
	return appendHexBytes(b, mac[:], between)
}

// appendUUID is %pUb (as it lies), %pUl (little-endian), upper case in B and L.
func appendUUID(b []byte, sub string, id [16]byte) []byte {
	order := [16]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	if sub == "Ul" || sub == "UL" {
		order = [16]int{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}
	}
	from := len(b)
	for i, at := range order {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, lowerDigits[id[at]>>4], lowerDigits[id[at]&15])
	}
	if sub == "UL" || sub == "UB" {
		for i := from; i < len(b); i++ {
			if b[i] >= 'a' {
				b[i] -= 'a' - 'A'
			}
		}
	}
	return b
}

// bit is bit i of a bitmap of longs.
func (e *Env) bit(mem []byte, i int) bool {
	at := i / 8
	if e.BigEndian {
		at ^= e.LongSize - 1
	}
	return at < len(mem) && mem[at]>>(i%8)&1 != 0
}

// appendBitmap is %*pb: words of 32 bits in hexadecimal, the highest first.
func (e *Env) appendBitmap(b []byte, mem []byte, n int) []byte {
	n = min(n, 8*len(mem))
	for end := n; end > 0; {
		begin := (end - 1) &^ 31
		var word uint32
		for i := begin; i < end; i++ {
			if e.bit(mem, i) {
				word |= 1 << (i - begin)
			}
		}
		if end != n {
			b = append(b, ',')
		}
		digits := (end - begin + 3) / 4
		b = pad(b, '0', digits-max(1, (bits.Len32(word)+3)/4))
		b = appendHex(b, uint64(word))
		end = begin
	}
	return b
}

// appendBitList is %*pbl: ranges, "0-3,7".
func (e *Env) appendBitList(b []byte, mem []byte, n int) []byte {
	first := true
	for i := 0; i < n; i++ {
		if !e.bit(mem, i) {
			continue
		}
		end := i
		for end+1 < n && e.bit(mem, end+1) {
			end++
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendInt(b, int64(i), 10)
		if end > i {
			b = strconv.AppendInt(append(b, '-'), int64(end), 10)
		}
		i = end
	}
	return b
}
