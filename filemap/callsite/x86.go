package callsite

import "encoding/binary"

// How long instructions of x86-64 are, by the opcode maps of the "Intel 64 and
// IA-32 Architectures Software Developer's Manual", volume 2, appendix A.
// Instructions that are not valid in 64-bit mode, and the rare XOP and far
// forms, end decoding.

// operands are what follows an opcode.
type operands uint8

const (
	modRM operands = 1 << iota
	imm8
	immZ // 4 bytes, 2 with an operand size prefix
	rel8
	rel32
	bad
)

// oneByte are the operands of the one-byte opcodes from 0x60 on that are not
// done by hand; the arithmetic below 0x40 repeats every eight.
var oneByte = map[byte]operands{
	0x60: bad, 0x61: bad, 0x63: modRM, 0x68: immZ, 0x69: modRM | immZ, 0x6a: imm8, 0x6b: modRM | imm8,
	0x80: modRM | imm8, 0x81: modRM | immZ, 0x82: bad, 0x83: modRM | imm8, 0x9a: bad,
	0xa8: imm8, 0xa9: immZ, 0xc0: modRM | imm8, 0xc1: modRM | imm8, 0xc6: modRM | imm8, 0xc7: modRM | immZ,
	0xcd: imm8, 0xce: bad, 0xd4: bad, 0xd5: bad, 0xd6: bad, 0xe8: rel32, 0xe9: rel32, 0xea: bad, 0xeb: rel8,
	0xfe: modRM, 0xff: modRM,
}

// operandsOf returns the operands of a one-byte opcode.
func operandsOf(op byte) operands {
	switch {
	case op < 0x40:
		return [8]operands{modRM, modRM, modRM, modRM, imm8, immZ, bad, bad}[op&7]
	case op >= 0x70 && op <= 0x7f, op >= 0xe0 && op <= 0xe3:
		return rel8
	case op >= 0x84 && op <= 0x8f, op >= 0xd0 && op <= 0xd3, op >= 0xd8 && op <= 0xdf:
		return modRM
	case op >= 0xb0 && op <= 0xb7, op >= 0xe4 && op <= 0xe7:
		return imm8
	}
	return oneByte[op]
}

// twoByte returns the operands of the opcodes after 0x0f.
func twoByte(op byte) operands {
	switch {
	case op >= 0x80 && op <= 0x8f:
		return rel32
	case op >= 0x05 && op <= 0x09, op == 0x0b, op == 0x0e, op >= 0x30 && op <= 0x37, op == 0x77,
		op >= 0xa0 && op <= 0xa2, op >= 0xa8 && op <= 0xaa, op >= 0xc8 && op <= 0xcf:
		return 0
	case op == 0x04, op == 0x0a, op == 0x0c, op >= 0x24 && op <= 0x27, op >= 0x39 && op <= 0x3f, op == 0x78, op == 0x79:
		return bad
	}
	return vector(op) | modRM
}

// vector reports whether an opcode of the map of 0x0f has an immediate byte, with
// VEX and EVEX, too.
func vector(op byte) operands {
	switch {
	case op >= 0x70 && op <= 0x73, op == 0xa4, op == 0xac, op == 0xba, op == 0xc2, op >= 0xc4 && op <= 0xc6, op == 0x0f:
		return imm8
	}
	return 0
}

// x86 is an instruction that is being decoded.
type x86 struct {
	code    []byte
	n       int // bytes so far
	op16    bool
	addr32  bool
	other   bool // has any other prefix but REX
	vex     bool // has a VEX or EVEX prefix
	rex     byte
	wide    bool // REX.W
	op      byte
	escaped bool // op is of another map than the first
	at      int  // where the ModRM byte is, 0 if there is none
	rm      byte
}

// longestX86 is the limit of the processor.
const longestX86 = 15

// decodeX86 decodes one instruction and returns how long it is.
func decodeX86(code []byte, addr uint64) (Step, int, bool) {
	d := x86{code: code[:min(len(code), longestX86)]}
	return d.decode(addr)
}

// decode decodes the instruction.
func (d *x86) decode(addr uint64) (Step, int, bool) {
	need, ok := d.opcode()
	if !ok || need&bad != 0 {
		return Step{}, 0, false
	}
	if need&modRM != 0 {
		if d.n >= len(d.code) {
			return Step{}, 0, false
		}
		d.at, d.rm = d.n, d.code[d.n]
		d.n += modRMLength(d.code[d.n:])
		need |= d.group()
		if need&bad != 0 {
			return Step{}, 0, false
		}
		if d.n > len(d.code) {
			return Step{}, 0, false
		}
		s := d.indirect(addr)
		d.n += d.immediate(need)
		s.Len = d.n
		return s, d.n, d.n <= len(d.code)
	}
	from := d.n
	d.n += d.immediate(need)
	if d.n > len(d.code) {
		return Step{}, 0, false
	}
	s := Step{Addr: addr, Len: d.n}
	next := addr + uint64(d.n)
	switch {
	case need&rel8 != 0:
		s.Kind, s.Target = Jump, next+uint64(int64(int8(d.code[from])))
	case need&rel32 != 0:
		s.Kind, s.Target = Jump, next+uint64(int64(int32(binary.LittleEndian.Uint32(d.code[from:]))))
		if d.op == 0xe8 && !d.escaped {
			s.Kind = Call
		}
	}
	return s, d.n, true
}

// opcode reads prefixes and opcode.
func (d *x86) opcode() (operands, bool) {
	for ; d.n < len(d.code); d.n++ {
		switch c := d.code[d.n]; {
		case c == 0x66:
			d.op16 = true
			continue
		case c == 0x67:
			d.addr32 = true
			continue
		case c == 0xf0, c == 0xf2, c == 0xf3, c == 0x2e, c == 0x36, c == 0x3e, c == 0x26, c == 0x64, c == 0x65:
			d.other = true
			continue
		case c&0xf0 == 0x40:
			d.rex, d.wide = c, c&8 != 0
			d.n++
		}
		break
	}
	c, ok := d.next()
	if !ok {
		return 0, false
	}
	d.op = c
	switch c {
	case 0x0f:
		return d.escape()
	case 0x62, 0xc4, 0xc5:
		d.vex = true
		return d.prefixed()
	case 0xc2, 0xca, 0xc8:
		d.n += 2
		if c == 0xc8 {
			d.n++
		}
		return 0, true
	}
	switch need := operandsOf(c); {
	case c >= 0xb8 && c <= 0xbf && d.wide:
		d.n += 8
		return 0, true
	case c >= 0xb8 && c <= 0xbf:
		return immZ, true
	case c >= 0xa0 && c <= 0xa3 && d.addr32:
		d.n += 4
		return 0, true
	case c >= 0xa0 && c <= 0xa3:
		d.n += 8
		return 0, true
	case c == 0xf6 || c == 0xf7:
		return modRM, true // group has the rest
	case need&(rel8|rel32) != 0 && d.op16 && !d.wide:
		return bad, true // processors do not agree
	default:
		return need, true
	}
}

// escape reads an opcode after 0x0f.
func (d *x86) escape() (operands, bool) {
	c, ok := d.next()
	d.op, d.escaped = c, true
	switch {
	case !ok:
		return 0, false
	case c == 0x38:
		_, ok = d.next()
		return modRM, ok
	case c == 0x3a:
		_, ok = d.next()
		return modRM | imm8, ok
	}
	return twoByte(c), true
}

// prefixed reads an opcode after a VEX or EVEX prefix.
func (d *x86) prefixed() (operands, bool) {
	prefix, more, chart := d.op, 1, byte(1)
	if prefix != 0xc5 {
		first, ok := d.next()
		if !ok {
			return 0, false
		}
		chart = first & 0x1f
		if prefix == 0x62 {
			chart, more = first&7, 2
		}
	}
	d.n += more
	c, ok := d.next()
	d.op, d.escaped = c, true
	switch {
	case !ok:
		return 0, false
	case chart == 1 && c == 0x77 && prefix != 0x62:
		return 0, true // vzeroupper
	case chart == 1:
		return modRM | vector(c), true
	case chart == 2, chart == 5, chart == 6:
		return modRM, true
	case chart == 3:
		return modRM | imm8, true
	}
	return bad, true
}

func (d *x86) next() (byte, bool) {
	if d.n >= len(d.code) {
		return 0, false
	}
	d.n++
	return d.code[d.n-1], true
}

// group returns what depends on the ModRM byte.
func (d *x86) group() operands {
	reg := d.rm >> 3 & 7
	switch {
	case d.escaped:
		return 0
	case d.op == 0xf6 && reg < 2:
		return imm8
	case d.op == 0xf7 && reg < 2:
		return immZ
	case d.op == 0x8f && reg != 0: // XOP
		return bad
	}
	return 0
}

// immediate returns how many bytes operands need after ModRM.
func (d *x86) immediate(need operands) (n int) {
	if need&(imm8|rel8) != 0 {
		n++
	}
	if need&immZ != 0 {
		n += 4
		if d.op16 && !d.wide {
			n -= 2
		}
	}
	if need&rel32 != 0 {
		n += 4
	}
	return n
}

// indirect returns the step of an instruction with a ModRM byte.
func (d *x86) indirect(addr uint64) Step {
	s := Step{Addr: addr}
	if d.op != 0xff || d.escaped {
		return s
	}
	switch d.rm >> 3 & 7 {
	case 2, 3:
		s.Kind = CallIndirect
	case 4, 5:
		s.Kind = JumpIndirect
	default:
		return s
	}
	if d.rm&0xc7 == 5 && !d.addr32 { // [rip+disp32]
		s.Slot = true
		s.Target = addr + uint64(d.n) + uint64(int64(int32(binary.LittleEndian.Uint32(d.code[d.at+1:]))))
	}
	return s
}
