package cfi

// runner runs the program of a CIE or FDE.
type runner struct {
	cie     *common
	regs    Registers
	row     Row
	initial Row // behind the program of the CIE
	rows    []Row
	stack   []Row
	back    bool // a row is before the one before it
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
	opNegateRAState    = 0x2d // of arm64: the return address is signed
	opGNUArgsSize      = 0x2e
)

// run runs a program; it is false if the program makes no sense.
func (u *runner) run(r reader) bool {
	for len(r.b) > 0 && !r.bad && len(u.rows) < maxRows {
		op := r.u8()
		low := uint64(op & 0x3f)
		switch op & 0xc0 {
		case opAdvance:
			u.advance(low)
		case opOffset:
			u.set(low, Rule{Saved, int64(r.uleb()) * u.cie.data})
		case opRestore:
			u.restore(low)
		default:
			if !u.extended(op, &r) {
				return false
			}
		}
	}
	return !r.bad && !u.back && len(u.rows) < maxRows
}

// extended runs an instruction without an operand in its number.
func (u *runner) extended(op byte, r *reader) bool {
	switch op {
	case opNop, opNegateRAState:
	case opSetLoc:
		u.moveTo(r.pointer(u.cie.pointers))
	case opAdvance1:
		u.advance(uint64(r.u8()))
	case opAdvance2:
		u.advance(uint64(r.u16()))
	case opAdvance4:
		u.advance(uint64(r.u32()))
	case opRememberState:
		u.stack = append(u.stack, u.row)
		return len(u.stack) <= maxDepth
	case opRestoreState:
		n := len(u.stack) - 1
		if n < 0 {
			return false
		}
		at := u.row.Addr
		u.row, u.stack = u.stack[n], u.stack[:n]
		u.row.Addr = at
	case opGNUArgsSize:
		r.uleb()
	default:
		return u.rule(op, r) || u.base(op, r)
	}
	return true
}

// rule runs an instruction about a register.
func (u *runner) rule(op byte, r *reader) bool {
	elsewhere := Rule{Where: Elsewhere}
	switch op {
	case opOffsetExtended:
		u.set(r.uleb(), Rule{Saved, int64(r.uleb()) * u.cie.data})
	case opOffsetExtendedSF:
		u.set(r.uleb(), Rule{Saved, r.sleb() * u.cie.data})
	case opRestoreExtended:
		u.restore(r.uleb())
	case opUndefined:
		u.set(r.uleb(), elsewhere)
	case opSameValue:
		u.set(r.uleb(), Rule{})
	case opRegister, opValOffset, opValOffsetSF:
		u.set(r.uleb(), elsewhere)
		r.uleb() // as long as a signed one
	case opExpression, opValExpression:
		u.set(r.uleb(), elsewhere)
		r.skip(r.uleb())
	default:
		return false
	}
	return true
}

// base runs an instruction that defines the canonical frame address.
func (u *runner) base(op byte, r *reader) bool {
	switch op {
	case opDefCFA:
		u.row.Base, u.row.Offset = r.uleb(), int64(r.uleb())
	case opDefCFASF:
		u.row.Base, u.row.Offset = r.uleb(), r.sleb()*u.cie.data
	case opDefCFARegister:
		u.row.Base = r.uleb()
	case opDefCFAOffset:
		u.row.Offset = int64(r.uleb())
	case opDefCFAOffsetSF:
		u.row.Offset = r.sleb() * u.cie.data
	case opDefCFAExpression:
		r.skip(r.uleb())
		u.row.Base, u.row.Offset = OtherBase, 0
	default:
		return false
	}
	return true
}

// set sets the rule of a register, if it is one that counts.
func (u *runner) set(register uint64, r Rule) {
	switch register {
	case u.regs.Frame:
		u.row.Frame = r
	case u.regs.Return:
		u.row.Return = r
	}
}

// restore gives a register its first rule.
func (u *runner) restore(register uint64) {
	switch register {
	case u.regs.Frame:
		u.row.Frame = u.initial.Frame
	case u.regs.Return:
		u.row.Return = u.initial.Return
	}
}

func (u *runner) advance(n uint64) { u.moveTo(u.row.Addr + n*u.cie.code) }

// moveTo ends the row at an address.
func (u *runner) moveTo(addr uint64) {
	if addr > u.row.Addr {
		u.rows = append(u.rows, u.row)
	}
	u.back = u.back || addr < u.row.Addr
	u.row.Addr = addr
}
