package table

import "debug/elf"

// maxDepth bounds the states that a program remembers.
const maxDepth = 64

// machine is what the readers know about a processor.
type machine struct {
	kind               elf.Machine
	frame, stack, link uint8 // DWARF numbers; link is where calls leave the return address
	returns            uint8 // the column of the return address
	linked             bool  // the return address is in a register at first
	arm64              bool
	count              uint64 // registers that have rules
}

// machineOf is nil for a processor that is not known.
func machineOf(m elf.Machine) *machine {
	switch m {
	case elf.EM_X86_64:
		return &machine{kind: m, frame: 6, stack: 7, link: 16, returns: 16, count: 17}
	case elf.EM_AARCH64:
		return &machine{kind: m, frame: 29, stack: 31, link: 30, returns: 30, linked: true, arm64: true, count: Registers}
	}
	return nil
}

// state is a row of the table: what a program has said so far.
type state struct {
	base   Rule
	regs   [Registers]Rule
	signed bool
	exprs  [][]byte
}

// runner runs the program of a CIE or FDE (DWARF 5, 6.4.2 and 6.4.3).
type runner struct {
	common  *common
	machine *machine
	state   *state
	loc     uint64 // the address that the state is at
	until   uint64 // run while loc is not beyond this address
	moved   int    // how many times the address has grown
	stack   []state
	done    bool
	back    bool
	row     func(loc uint64) // nil, or called before the address grows
}

// The instructions (DW_CFA_*) by number. The first three have an operand in
// their lower six bits.
const (
	opAdvance          = 0x40
	opOffset           = 0x80
	opRestore          = 0xc0
	opNop              = 0x00
	opSetLoc           = 0x01
	opAdvance1         = 0x02
	opAdvance2         = 0x03
	opAdvance4         = 0x04
	opOffsetExtended   = 0x05
	opRestoreExtended  = 0x06
	opUndefined        = 0x07
	opSameValue        = 0x08
	opRegister         = 0x09
	opRememberState    = 0x0a
	opRestoreState     = 0x0b
	opDefCFA           = 0x0c
	opDefCFARegister   = 0x0d
	opDefCFAOffset     = 0x0e
	opDefCFAExpression = 0x0f
	opExpression       = 0x10
	opOffsetExtendedSF = 0x11
	opDefCFASF         = 0x12
	opDefCFAOffsetSF   = 0x13
	opValOffset        = 0x14
	opValOffsetSF      = 0x15
	opValExpression    = 0x16
	opNegateRAState    = 0x2d // AADWARF64, 4.4: the return address is signed, or no more
	opGNUArgsSize      = 0x2e
	opGNUNegative      = 0x2f // LSB, 10.6.1.3: DW_CFA_GNU_negative_offset_extended
)

// run runs a program up to the row of an address; it is false if the program
// is malformed up to there.
func (u *runner) run(r reader) bool {
	for len(r.b) > 0 && !r.bad && !u.done {
		op := r.u8()
		low := uint64(op & 0x3f)
		switch op & 0xc0 {
		case opAdvance:
			u.moveTo(u.loc + low*u.common.code)
		case opOffset:
			u.set(low, Rule{Kind: At, N: int64(r.uleb()) * u.common.data})
		case opRestore:
			u.restore(low)
		default:
			if !u.extended(op, &r) {
				return false
			}
		}
	}
	return !r.bad && !u.back
}

// extended runs an instruction without an operand in its number.
func (u *runner) extended(op byte, r *reader) bool {
	switch op {
	case opNop:
	case opSetLoc:
		u.moveTo(r.pointer(u.common.pointers))
	case opAdvance1:
		u.moveTo(u.loc + uint64(r.u8())*u.common.code)
	case opAdvance2:
		u.moveTo(u.loc + uint64(r.u16())*u.common.code)
	case opAdvance4:
		u.moveTo(u.loc + uint64(r.u32())*u.common.code)
	case opRememberState:
		u.stack = append(u.stack, *u.state)
		return len(u.stack) <= maxDepth
	case opRestoreState:
		n := len(u.stack) - 1
		if n < 0 {
			return false
		}
		*u.state, u.stack = u.stack[n], u.stack[:n]
	case opNegateRAState:
		if !u.machine.arm64 { // another machine's: register windows
			return false
		}
		u.state.signed = !u.state.signed
	case opGNUArgsSize:
		r.uleb()
	default:
		return u.rule(op, r) || u.base(op, r)
	}
	return true
}

// rule runs an instruction about a register.
func (u *runner) rule(op byte, r *reader) bool {
	data := u.common.data
	switch op {
	case opOffsetExtended:
		u.set(r.uleb(), Rule{Kind: At, N: int64(r.uleb()) * data})
	case opOffsetExtendedSF:
		u.set(r.uleb(), Rule{Kind: At, N: r.sleb() * data})
	case opGNUNegative:
		u.set(r.uleb(), Rule{Kind: At, N: -int64(r.uleb()) * data})
	case opRestoreExtended:
		u.restore(r.uleb())
	case opUndefined:
		u.set(r.uleb(), Rule{Kind: Undefined})
	case opSameValue:
		u.set(r.uleb(), Rule{Kind: Same})
	case opRegister:
		u.set(r.uleb(), Rule{Kind: In, N: int64(r.uleb())})
	case opValOffset:
		u.set(r.uleb(), Rule{Kind: Is, N: int64(r.uleb()) * data})
	case opValOffsetSF:
		u.set(r.uleb(), Rule{Kind: Is, N: r.sleb() * data})
	case opExpression:
		u.set(r.uleb(), u.expression(AtExpression, r))
	case opValExpression:
		u.set(r.uleb(), u.expression(IsExpression, r))
	default:
		return false
	}
	return true
}

// base runs an instruction that defines the canonical frame address.
func (u *runner) base(op byte, r *reader) bool {
	b := &u.state.base
	switch op {
	case opDefCFA:
		u.setBase(r.uleb(), int64(r.uleb()))
	case opDefCFASF:
		u.setBase(r.uleb(), r.sleb()*u.common.data)
	case opDefCFARegister:
		if b.Kind != IsRegister {
			return false
		}
		u.setBase(r.uleb(), b.N)
	case opDefCFAOffset, opDefCFAOffsetSF:
		if b.Kind != IsRegister {
			return false
		}
		if b.N = int64(0); op == opDefCFAOffset {
			b.N = int64(r.uleb())
		} else {
			b.N = r.sleb() * u.common.data
		}
	case opDefCFAExpression:
		*b = u.expression(IsExpression, r)
	default:
		return false
	}
	return true
}

// setBase makes the base a register plus an offset; a register that is not
// tracked makes it unknown.
func (u *runner) setBase(register uint64, n int64) {
	u.state.base = Rule{Kind: IsRegister, Reg: uint8(register), N: n}
	if register >= Registers {
		u.state.base = Rule{Kind: Undefined, N: n}
	}
}

// expression reads an expression. maxExpressions bounds how many a row has.
func (u *runner) expression(kind Kind, r *reader) Rule {
	const maxExpressions, maxLength = 64, 256
	e := r.take(r.uleb())
	n := len(u.state.exprs)
	if n >= maxExpressions || len(e) > maxLength {
		r.bad = true
		return Rule{}
	}
	// States share their expressions up to where they differ.
	u.state.exprs = append(u.state.exprs[:n:n], e)
	return Rule{Kind: kind, N: int64(n)}
}

// set sets the rule of a register, if it is one that counts. A register's number
// beyond all is no reason to know less of others.
func (u *runner) set(register uint64, r Rule) {
	if register >= u.machine.count {
		return
	}
	if r.Kind == In && uint64(r.N) >= Registers {
		r = Rule{Kind: Undefined}
	}
	r.Of = uint8(register)
	u.state.regs[register] = r
}

// restore gives a register its first rule.
func (u *runner) restore(register uint64) {
	switch {
	case register >= Registers:
	case u.common.initial == nil:
		u.state.regs[register] = Rule{}
	default:
		u.state.regs[register] = u.common.initial.regs[register]
	}
}

// moveTo ends the row at an address.
func (u *runner) moveTo(addr uint64) {
	switch {
	case addr < u.loc:
		u.back, u.done = true, true
	case addr > u.until:
		u.done = true
	case addr > u.loc:
		if u.row != nil {
			u.row(u.loc)
		}
		u.moved++
		u.loc = addr
	}
}
