package unwind

import "math/bits"

// Bounds on an expression. Compilers and the C library write some ten
// operations.
const (
	maxOperations = 256
	maxValues     = 32
)

// The operations of expressions (DW_OP_*; DWARF 5, 7.7.1).
const (
	opDeref      = 0x06
	opConst1u    = 0x08
	opConst1s    = 0x09
	opConst2u    = 0x0a
	opConst2s    = 0x0b
	opConst4u    = 0x0c
	opConst4s    = 0x0d
	opConst8u    = 0x0e
	opConst8s    = 0x0f
	opConstu     = 0x10
	opConsts     = 0x11
	opDup        = 0x12
	opDrop       = 0x13
	opOver       = 0x14
	opPick       = 0x15
	opSwap       = 0x16
	opRot        = 0x17
	opAbs        = 0x19
	opAnd        = 0x1a
	opDiv        = 0x1b
	opMinus      = 0x1c
	opMod        = 0x1d
	opMul        = 0x1e
	opNeg        = 0x1f
	opNot        = 0x20
	opOr         = 0x21
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opShr        = 0x25
	opShra       = 0x26
	opXor        = 0x27
	opBra        = 0x28
	opEq         = 0x29
	opNe         = 0x2e
	opSkip       = 0x2f
	opLit0       = 0x30
	opLit31      = 0x4f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opBregx      = 0x92
	opDerefSize  = 0x94
	opNop        = 0x96
)

// expression is a program that is running on a stack of values.
type expression struct {
	w      *walker
	code   []byte
	at     int
	values [maxValues]uint64
	n      int
	bad    bool
}

// evaluate runs an expression (DWARF 5, 2.5). first is on its stack at the
// beginning: the canonical frame address, but for the one that defines it. If ok
// is false, w.end says why.
func (w *walker) evaluate(code []byte, first ...uint64) (v uint64, ok bool) {
	w.end = End{Why: NoInformation, Detail: "an expression that makes no sense"}
	x := expression{w: w, code: code}
	x.n = copy(x.values[:], first)
	for n := 0; x.at < len(x.code); n++ {
		if n == maxOperations || !x.operation() || x.bad {
			return 0, false
		}
	}
	if v = x.pop(); x.bad {
		return 0, false
	}
	return v, true
}

func (x *expression) push(v uint64) bool {
	if x.n == maxValues {
		return false
	}
	x.values[x.n] = v
	x.n++
	return true
}

func (x *expression) pop() uint64 {
	if x.n == 0 {
		x.bad = true
		return 0
	}
	x.n--
	return x.values[x.n]
}

// operation runs one operation.
func (x *expression) operation() bool {
	op := x.code[x.at]
	x.at++
	switch {
	case op >= opLit0 && op <= opLit31:
		return x.push(uint64(op - opLit0))
	case op >= opBreg0 && op <= opBreg31:
		return x.register(uint64(op - opBreg0))
	case op >= opConst1u && op <= opConsts:
		return x.constant(op)
	case op >= opDup && op <= opRot:
		return x.shuffle(op)
	case op >= opAnd && op <= opNe && op != opBra || op == opAbs:
		return x.arithmetic(op)
	}
	switch op {
	case opNop:
		return true
	case opBregx:
		return x.register(x.uleb())
	case opDeref:
		return x.load(8)
	case opDerefSize:
		return x.load(x.number(1))
	case opSkip, opBra:
		to := int(int16(x.number(2)))
		if op == opSkip || x.pop() != 0 {
			x.at += to
		}
		return x.at >= 0 && x.at <= len(x.code)
	}
	return false
}

// register pushes a register plus an offset.
func (x *expression) register(n uint64) bool {
	offset := x.sleb()
	if n >= uint64(len(x.w.regs.v)) {
		return false
	}
	reg := uint8(n)
	if reg == AMD64PC && !x.w.arm64 { // the rip of PLT entries' rules
		return x.push(x.w.pc + uint64(offset))
	}
	v, ok := x.w.regs.Get(reg)
	if !ok {
		x.w.end = End{Why: UnknownRegister, Register: reg}
		return false
	}
	return x.push(v + uint64(offset))
}

// load replaces an address by the value there.
func (x *expression) load(size uint64) bool {
	if size == 0 || size > 8 {
		return false
	}
	addr := x.pop()
	if x.bad {
		return false
	}
	v, ok := x.w.word(addr)
	if !ok {
		return false
	}
	return x.push(v & (^uint64(0) >> (64 - 8*size)))
}

// constant pushes a constant.
func (x *expression) constant(op byte) bool {
	switch op {
	case opConstu:
		return x.push(x.uleb())
	case opConsts:
		return x.push(uint64(x.sleb()))
	}
	size := 1 << ((op - opConst1u) / 2)
	v := x.number(size)
	if op&1 == 1 {
		shift := 64 - 8*size
		v = uint64(int64(v<<shift) >> shift)
	}
	return x.push(v)
}

// shuffle moves and copies values.
func (x *expression) shuffle(op byte) bool {
	switch op {
	case opDup:
		return x.pick(0)
	case opDrop:
		x.pop()
	case opOver:
		return x.pick(1)
	case opPick:
		return x.pick(x.number(1))
	case opSwap:
		a, b := x.pop(), x.pop()
		return x.push(a) && x.push(b)
	case opRot:
		a, b, c := x.pop(), x.pop(), x.pop()
		return x.push(a) && x.push(c) && x.push(b)
	}
	return true
}

func (x *expression) pick(n uint64) bool {
	if n >= uint64(x.n) {
		return false
	}
	return x.push(x.values[x.n-1-int(n)])
}

// arithmetic runs an operation on one or two values.
func (x *expression) arithmetic(op byte) bool {
	b := x.pop()
	switch op {
	case opAbs:
		return x.push(max(b, -b) & (1<<63 - 1))
	case opNeg:
		return x.push(-b)
	case opNot:
		return x.push(^b)
	case opPlusUconst:
		return x.push(b + x.uleb())
	}
	a := x.pop()
	if op >= opEq && op <= opNe {
		return x.push(compare(op, int64(a), int64(b)))
	}
	switch op {
	case opAnd:
		a &= b
	case opOr:
		a |= b
	case opXor:
		a ^= b
	case opPlus:
		a += b
	case opMinus:
		a -= b
	case opMul:
		_, a = bits.Mul64(a, b)
	case opShl:
		a <<= b
	case opShr:
		a >>= b
	case opShra:
		a = uint64(int64(a) >> min(b, 63))
	case opDiv, opMod:
		if b == 0 {
			return false
		}
		if op == opMod {
			a %= b
		} else {
			a = uint64(int64(a) / int64(b))
		}
	default:
		return false
	}
	return x.push(a)
}

// compare compares signed numbers: eq, ge, gt, le, lt, ne.
func compare(op byte, a, b int64) uint64 {
	if [...]bool{a == b, a >= b, a > b, a <= b, a < b, a != b}[op-opEq] {
		return 1
	}
	return 0
}

// number reads a number of so many bytes.
func (x *expression) number(size int) (v uint64) {
	if size > len(x.code)-x.at {
		x.bad = true
		x.at = len(x.code)
		return 0
	}
	for i := range size {
		v |= uint64(x.code[x.at+i]) << (8 * i)
	}
	x.at += size
	return v
}

func (x *expression) uleb() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := x.number(1)
		v |= c & 0x7f << shift
		if c < 0x80 {
			return v
		}
	}
	x.bad = true
	return 0
}

func (x *expression) sleb() int64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		c := x.number(1)
		v |= c & 0x7f << shift
		if c < 0x80 {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= ^uint64(0) << (shift + 7)
			}
			return int64(v)
		}
	}
	x.bad = true
	return 0
}
