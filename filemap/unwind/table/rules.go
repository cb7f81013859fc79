// Package table reads what an ELF file says about stacks: for each instruction,
// where the frame of its caller begins, and where the registers are that the
// caller had.
//
// Four forms are read. All are untrusted: no number is believed further than
// its section, and malformed data is an error.
//
//   - .eh_frame, with or without the index of .eh_frame_hdr: Linux Standard Base
//     Core 5.0, 10.6 "Exception Frames".
//   - .debug_frame, also compressed: DWARF 5, 6.4 "Call Frame Information"; for
//     arm64 also "DWARF for the Arm 64-bit Architecture" (AADWARF64), 4.4.
//   - .sframe, versions 1 to 3: "The SFrame format" of GNU binutils 2.40, 2.41
//     and 2.46.
package table

import (
	"encoding/binary"
	"slices"
)

// Registers is how many registers have rules: by DWARF number the 16 of x86-64
// and the return address (psABI, figure 3.36), or the 31 of arm64, SP and PC
// (AADWARF64, 4.1). Vector registers hold no address.
const Registers = 33

// Kind is how to find a value.
type Kind uint8

const (
	// Unsaid is a register without a rule. One that functions must keep is as
	// it was, all others are unknown (DWARF 5, 6.4.1).
	Unsaid Kind = iota
	// Undefined: the value is lost. For the return address: there is no caller.
	Undefined
	// Same: the register is unchanged.
	Same
	// At: in memory, N bytes from the canonical frame address.
	At
	// Is: the value is the canonical frame address plus N.
	Is
	// In: the value of register N.
	In
	// AtExpression: in memory, where expression N says.
	AtExpression
	// IsExpression: the value of expression N.
	IsExpression
	// AtRegister: in memory at register Reg plus N (SFrame's flexible rules).
	AtRegister
	// IsRegister: the value of register Reg plus N.
	IsRegister
)

// Rule is how to find one register of the caller.
type Rule struct {
	Kind Kind
	// Of is the register that the rule is of.
	Of uint8
	// Reg is the register that AtRegister and IsRegister count from.
	Reg uint8
	N   int64
}

// Rules is what holds at an instruction. Equal Rules of one Table are the same
// pointer; they must not be changed.
type Rules struct {
	// Base is how to find the canonical frame address: IsRegister, AtRegister
	// or IsExpression.
	Base Rule
	// Return is the rule of the return address.
	Return Rule
	// Others are the rules of other registers, in order of their number.
	Others []Rule
	// Expressions are programs of DWARF 5, 2.5.
	Expressions [][]byte
	// Signal: the frame is a signal handler's caller, so the address before it
	// has been interrupted, not called from (augmentation 'S').
	Signal bool
	// Signed: bits of the return address are a signature
	// (DW_CFA_AARCH64_negate_ra_state; AADWARF64, 4.4).
	Signed bool
	// Few: registers without a rule are unknown, not even known to be kept
	// (SFrame).
	Few bool
	// Plain: Base is IsRegister, and all of Others are At.
	Plain bool
}

// set interns Rules.
type set struct {
	known map[string]*Rules
	key   []byte
	bytes int
}

// intern returns the one Rules that is equal to r. r is copied.
func (s *set) intern(r *Rules) *Rules {
	s.key = r.appendKey(s.key[:0])
	if known := s.known[string(s.key)]; known != nil {
		return known
	}
	if s.known == nil {
		s.known = make(map[string]*Rules)
	}
	own := *r
	own.Plain = r.Base.Kind == IsRegister && !slices.ContainsFunc(r.Others, func(o Rule) bool { return o.Kind != At })
	own.Others = slices.Clone(r.Others)
	own.Expressions = slices.Clone(r.Expressions)
	s.bytes += len(s.key) + 160 + 16*len(own.Others)
	for i, e := range own.Expressions {
		own.Expressions[i] = slices.Clone(e) // not a part of the section
		s.bytes += len(e) + 24
	}
	s.known[string(s.key)] = &own
	return &own
}

// appendKey appends a key that identifies Rules.
func (r *Rules) appendKey(b []byte) []byte {
	flags := byte(0)
	for i, f := range [...]bool{r.Signal, r.Signed, r.Few} {
		if f {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = r.appendRule(b, r.Base)
	b = r.appendRule(b, r.Return)
	for _, o := range r.Others {
		b = r.appendRule(b, o)
	}
	return b
}

func (r *Rules) appendRule(b []byte, x Rule) []byte {
	b = append(b, byte(x.Kind), x.Of, x.Reg)
	if x.Kind == AtExpression || x.Kind == IsExpression {
		e := r.Expressions[x.N]
		b = binary.AppendUvarint(b, uint64(len(e)))
		return append(b, e...)
	}
	return binary.AppendVarint(b, x.N)
}
