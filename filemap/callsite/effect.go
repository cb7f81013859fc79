package callsite

import "encoding/binary"

// Op is what an instruction of x86-64 does to general registers and the stack.
type Op uint8

const (
	// Other writes no more general registers than Writes.
	Other Op = iota
	// Push pushes register From, or the number N if From is None.
	Push
	// Pop pops into register To, or into nothing known if To is None.
	Pop
	// Add makes register To the sum of register From and N: add, sub, lea, mov.
	Add
	// Load makes To the 8 bytes at register From plus N.
	Load
	// Store makes the 8 bytes at register To plus N those of register From.
	Store
	// Number makes To the number N.
	Number
	// LowByte makes the low byte of To the number N.
	LowByte
	// Exchange exchanges registers To and From.
	Exchange
	// Leave is mov %rbp,%rsp; pop %rbp.
	Leave
	// Return takes N bytes off the stack after the return address.
	Return
	// System is a system call.
	System
	// Halt has no next instruction: hlt, ud2, int3.
	Halt
	// Nothing does nothing: what assemblers fill space with, but not endbr64.
	Nothing
)

// None is no register.
const None = 16

// Effect is one instruction of x86-64. Registers have their numbers in
// instructions: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
type Effect struct {
	Step
	Op       Op
	To, From uint8
	N        int64
	// Writes are more registers whose value is unknown after it, as bits. A call is not
	// one that writes registers here.
	Writes uint16
	// Conditional: a Jump that may not be taken.
	Conditional bool
}

// callerSaved are the registers that functions need not keep (psABI of x86-64, 3.2.1).
const callerSaved = 1<<rax | 1<<rcx | 1<<2 | 1<<rsi | 1<<rdi | 0xf<<8

// Registers by their numbers in instructions, more.
const (
	rbx = 3
	rbp = 5
)

// Decode decodes the first instruction of code, which lies at an address; ok is false
// if it cannot.
func Decode(code []byte, addr uint64) (e Effect, ok bool) {
	d := x86{code: code[:min(len(code), longestX86)]}
	if e.Step, e.Len, ok = d.decode(addr); !ok {
		return e, false
	}
	e.Addr, e.To, e.From = addr, None, None
	switch {
	case e.Kind == Straight:
		d.effect(&e)
	case e.Kind == Jump:
		e.Conditional = d.escaped || d.op != 0xe9 && d.op != 0xeb
	}
	return e, true
}

// effect finds out what an instruction does that is no call and no jump.
func (d *x86) effect(e *Effect) {
	switch {
	case d.vex:
		e.Writes = d.vexWrites()
	case d.escaped:
		d.escapedEffect(e)
	case d.at == 0:
		d.shortEffect(e)
	case d.other || d.op16 || d.addr32:
		e.Writes = d.named()
	default:
		d.modRMEffect(e)
	}
	if d.readsOnly() {
		e.Writes = 0
	}
}

// vexWrites are the registers that an instruction with a VEX or EVEX prefix can write:
// vector instructions have no more than those that functions need not keep. Those of
// BMI have others, too, which the function has to restore; none has the stack pointer.
func (d *x86) vexWrites() uint16 { return callerSaved }

// named are the registers that the instruction names, and those that functions need not keep.
func (d *x86) named() uint16 {
	w := uint16(callerSaved)
	if d.at > 0 {
		if !d.grouped() {
			w |= 1 << d.reg()
		}
		if d.rm>>6 == 3 {
			w |= 1 << d.operand()
		}
	}
	return w
}

// grouped reports whether the register of ModRM is a part of the opcode.
func (d *x86) grouped() bool {
	switch op := d.op; {
	case d.escaped:
		return op <= 0x01 || op == 0xae || op == 0xba || op == 0xc7
	case op >= 0x80 && op <= 0x83, op == 0x8f, op >= 0xc0 && op <= 0xc1, op >= 0xc6 && op <= 0xc7, op >= 0xd0 && op <= 0xdf,
		op == 0xf6, op == 0xf7, op == 0xfe, op == 0xff:
		return true
	}
	return false
}

// low returns the register in the low bits of the opcode.
func (d *x86) low() uint8 { return d.op&7 | d.rex&1<<3 }

// shortEffect is effect of an instruction without a ModRM byte.
func (d *x86) shortEffect(e *Effect) {
	end := d.code[:d.n]
	switch op := d.op; {
	case op >= 0x50 && op <= 0x57 && !d.op16:
		e.Op, e.From = Push, d.low()
	case op >= 0x58 && op <= 0x5f && !d.op16:
		e.Op, e.To = Pop, d.low()
	case op == 0x6a:
		e.Op, e.N = Push, int64(int8(end[len(end)-1]))
	case op == 0x68 && !d.op16:
		e.Op, e.N = Push, int64(int32(binary.LittleEndian.Uint32(end[len(end)-4:])))
	case op == 0x90 && d.rex&1 == 0:
		e.Op = Nothing
	case op > 0x90 && op <= 0x97 && d.wide, op == 0x90 && d.wide:
		e.Op, e.To, e.From = Exchange, rax, d.low()
	case op >= 0xb8 && op <= 0xbf && !d.wide && !d.op16:
		e.Op, e.To, e.N = Number, d.low(), int64(binary.LittleEndian.Uint32(end[len(end)-4:]))
	case op >= 0xb0 && op <= 0xb3 || op >= 0xb0 && op <= 0xb7 && d.rex != 0:
		e.Op, e.To, e.N = LowByte, d.low(), int64(end[len(end)-1])
	case op == 0xc9 && !d.op16:
		e.Op = Leave
	case op == 0xc3 && !d.op16: // perhaps after rep or bnd
		e.Op = Return
	case op == 0xc2 && !d.op16:
		e.Op, e.N = Return, int64(binary.LittleEndian.Uint16(end[len(end)-2:]))
	case op == 0xf4, op == 0xcc, op == 0xf1:
		e.Op = Halt
	default:
		d.rareEffect(e)
	}
}

// rareEffect is shortEffect of instructions that compilers hardly write.
func (d *x86) rareEffect(e *Effect) {
	switch op := d.op; {
	case op >= 0x50 && op <= 0x5f, op == 0x68, op == 0xc8, op == 0x9c, op == 0x9d, op == 0xca, op == 0xcb, op == 0xcf, op == 0xc2, op == 0xc3, op == 0xc9:
		e.Writes = callerSaved | 1<<rsp | 1<<rbp | 1<<rbx | 0xf<<12 // of the stack nothing is known
	case op < 0x40 && op&7 == 4, op < 0x40 && op&7 == 5, op == 0x98, op == 0x99, op == 0xa8, op == 0xa9:
		e.Writes = 1<<rax | 1<<2
	default:
		e.Writes = callerSaved | 1<<d.low()
		if op < 0x90 || op > 0xbf {
			e.Writes = callerSaved
		}
	}
}

// escapedEffect is effect of an opcode after 0x0f.
func (d *x86) escapedEffect(e *Effect) {
	switch op := d.op; {
	case op == 0x05:
		e.Op, e.Writes = System, 1<<rcx|1<<r11|1<<rax
	case op == 0x0b, op == 0xb9, op == 0xff:
		e.Op = Halt
	case op == 0x1f, op == 0x0d, op == 0x18:
		e.Op = Nothing
	case op == 0x1e: // endbr64, and rdsspq, which writes a register
		if d.other && d.rm != 0xfa {
			e.Writes = d.named()
		}
	case op >= 0xc8 && op <= 0xcf:
		e.Writes = 1 << d.low()
	case op == 0xa2: // cpuid
		e.Writes = callerSaved | 1<<rbx
	case d.ofVectors():
		if d.at == 0 {
			e.Writes = callerSaved
		}
	default:
		e.Writes = d.named()
	}
}

// ofVectors reports whether an opcode after 0x0f has no general register as a result.
func (d *x86) ofVectors() bool {
	switch op := d.op; {
	case op == 0x38:
		third := d.code[d.at-1]
		return third < 0xf0
	case op == 0x3a:
		third := d.code[d.at-1]
		return third < 0x14 || third > 0x17
	case op >= 0x10 && op <= 0x17, op >= 0x28 && op <= 0x2b, op == 0x2e, op == 0x2f, op >= 0x51 && op <= 0x77, op >= 0x7c && op <= 0x7d, op == 0x7f,
		op == 0xc2, op == 0xc4, op == 0xc6, op >= 0xd0 && op <= 0xd6, op >= 0xd8:
		return true
	}
	return false
}

// readsOnly reports whether an instruction compares or tests: it writes flags only.
func (d *x86) readsOnly() bool {
	reg := d.rm >> 3 & 7
	switch {
	case d.vex:
		return false
	case d.escaped:
		return d.op == 0xa3 || d.op == 0xba && reg == 4
	case d.at == 0:
		return d.op == 0x3c || d.op == 0x3d || d.op == 0xa8 || d.op == 0xa9
	}
	return d.op >= 0x38 && d.op <= 0x3b || d.op == 0x84 || d.op == 0x85 || d.op >= 0x80 && d.op <= 0x83 && reg == 7 ||
		(d.op == 0xf6 || d.op == 0xf7) && reg < 2 || d.op >= 0xd8 && d.op <= 0xdf && d.rm>>6 != 3
}

// modRMEffect is effect of an instruction with a ModRM byte and no prefix but REX.
func (d *x86) modRMEffect(e *Effect) {
	m, isMemory := d.memory()
	known := isMemory && m.base >= 0 && !m.index
	reg, operand := uint8(d.reg()), uint8(d.operand())
	e.Writes = d.named()
	switch op := d.op; {
	case op == 0x89 && isMemory, op == 0x88 && isMemory, op == 0xc6, op == 0xc7 && isMemory, op == 0x80 && isMemory, op == 0x81 && isMemory, op == 0x83 && isMemory:
		e.Writes = 0
		if op == 0x89 && d.wide && known {
			e.Op, e.To, e.From, e.N = Store, uint8(m.base), reg, m.disp
		}
	case op == 0x89 && d.wide:
		e.Op, e.To, e.From, e.Writes = Add, operand, reg, 0
	case op == 0x8b && d.wide && !isMemory:
		e.Op, e.To, e.From, e.Writes = Add, reg, operand, 0
	case op == 0x8b && d.wide && known:
		e.Op, e.To, e.From, e.N, e.Writes = Load, reg, uint8(m.base), m.disp, 0
	case op == 0x8d && d.wide && known:
		e.Op, e.To, e.From, e.N, e.Writes = Add, reg, uint8(m.base), m.disp, 0
	case op == 0x87 && d.wide && !isMemory:
		e.Op, e.To, e.From, e.Writes = Exchange, operand, reg, 0
	case op == 0x8b, op == 0x8d, op == 0x8a, op == 0x63, op == 0x69, op == 0x6b:
		e.Writes = 1 << reg
		if op == 0x8a && d.rex == 0 {
			e.Writes = 1 << (reg & 3)
		}
	case op == 0x8f:
		e.Op, e.Writes = Pop, 0
		if !isMemory {
			e.To = operand
		}
	case op == 0xff && reg&7 == 6:
		e.Op, e.Writes, e.From = Push, 0, None
		e.To = rsp // what is pushed is unknown
		if !isMemory {
			e.To, e.From = None, operand
		}
	case op == 0xc7 && d.wide:
		e.Op, e.To, e.N, e.Writes = Number, operand, int64(int32(binary.LittleEndian.Uint32(d.code[d.n-4:]))), 0
	default:
		d.arithmetic(e, isMemory)
	}
}

// arithmetic is modRMEffect of add, sub, xor and their like.
func (d *x86) arithmetic(e *Effect, isMemory bool) {
	kind, operand := d.rm>>3&7, uint8(d.operand())
	switch op := d.op; {
	case (op == 0x81 || op == 0x83) && !isMemory:
		e.Writes = 1 << operand
		if !d.wide || kind != 0 && kind != 5 { // add, sub
			return
		}
		n := int64(int8(d.code[d.n-1]))
		if op == 0x81 {
			n = int64(int32(binary.LittleEndian.Uint32(d.code[d.n-4:])))
		}
		if kind == 5 {
			n = -n
		}
		e.Op, e.To, e.From, e.N, e.Writes = Add, operand, operand, n, 0
	case (op == 0x31 || op == 0x33 || op == 0x29 || op == 0x2b) && !isMemory && d.reg() == d.operand():
		e.Op, e.To, e.Writes = Number, operand, 0
	case op < 0x40 && op&7 < 4:
		e.Writes = 1 << d.reg()
		if op&2 == 0 {
			e.Writes = 1 << operand
			if isMemory {
				e.Writes = 0
			}
		}
	}
}
