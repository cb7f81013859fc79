// Package cfi finds where functions begin and end, and where the frame pointer is
// at each of their instructions, by the call frame information of a file
// (.eh_frame), which package table reads.
package cfi

import (
	"debug/elf"
	"errors"
	"fmt"
	"sort"

	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/table"
)

// Where is the place of the value that a register had in the caller.
type Where uint8

const (
	// Same: in the register, which is unchanged.
	Same Where = iota
	// Saved: in the stack, at Offset from the canonical frame address.
	Saved
	// Elsewhere: anywhere else.
	Elsewhere
)

// Rule is where a register's value is.
type Rule struct {
	Where  Where
	Offset int64
}

// Row is what holds from an instruction on, up to the next row.
type Row struct {
	Addr uint64
	// Base is the register that the canonical frame address is counted from,
	// otherBase if it is an expression; Offset is how far it is from there.
	Base   uint64
	Offset int64
	// Frame and Return are the rules of the frame pointer and of the return
	// address.
	Frame, Return Rule
}

// otherBase is a canonical frame address that is no register plus an offset.
const otherBase = ^uint64(0)

// Function is the information on a run of code: a function, or a part of one
// that lies elsewhere.
type Function struct {
	Start, End uint64
	// Signal marks the code that signal handlers return to.
	Signal bool
	// Rows are in the order of addresses; the first one is at Start.
	Rows []Row
}

// At returns the row of an address in the function.
func (f *Function) At(addr uint64) *Row {
	i := sort.Search(len(f.Rows), func(i int) bool { return f.Rows[i].Addr > addr })
	return &f.Rows[max(i-1, 0)]
}

// Registers are the DWARF numbers of a machine's registers.
type Registers struct{ Frame, Stack, Return uint64 }

// RegistersOf returns the registers of a machine, by the psABI of x86-64
// (figure 3.36) and "DWARF for the Arm 64-bit Architecture" (4.1).
func RegistersOf(m elf.Machine) (r Registers, ok bool) {
	switch m {
	case elf.EM_X86_64:
		return Registers{Frame: 6, Stack: 7, Return: 16}, true
	case elf.EM_AARCH64:
		return Registers{Frame: 29, Stack: 31, Return: 30}, true
	}
	return r, false
}

// Table is the call frame information of a file.
type Table struct {
	regs  Registers
	table *table.Table
}

// errNone is the error of a file without the information.
var errNone = errors.New("no call frame information with a table (.eh_frame_hdr)")

// Open reads the header of a file's information.
func Open(x *image.Image) (*Table, error) {
	regs, ok := RegistersOf(x.Machine)
	if !ok {
		return nil, errNone
	}
	t, err := table.Open(x, x, table.EHFrame)
	if errors.Is(err, table.ErrNone) || err == nil && !t.Indexed {
		return nil, errNone
	}
	if err != nil {
		return nil, fmt.Errorf("reading call frame information: %w", err)
	}
	return &Table{regs: regs, table: t}, nil
}

// Memory returns about how many bytes are kept.
func (t *Table) Memory() int { return t.table.Memory() }

// Next returns where the first code after an address begins that there is information on.
func (t *Table) Next(addr uint64) (start uint64, ok bool) { return t.table.Next(addr) }

// Find returns the information on the code at an address, nil if there is none.
func (t *Table) Find(addr uint64) *Function {
	f := new(Function)
	span, ok := t.table.Rows(addr, func(addr uint64, r *table.Rules) {
		f.Signal = f.Signal || r.Signal
		f.Rows = append(f.Rows, t.row(addr, r))
	})
	if !ok {
		return nil
	}
	f.Start, f.End = span.Start, span.End
	return f
}

// row returns what counts of a row of a table.
func (t *Table) row(addr uint64, r *table.Rules) Row {
	row := Row{Addr: addr, Base: otherBase, Return: rule(r.Return)}
	if r.Base.Kind == table.IsRegister {
		row.Base, row.Offset = uint64(r.Base.Reg), r.Base.N
	}
	for _, o := range r.Others {
		if uint64(o.Of) == t.regs.Frame {
			row.Frame = rule(o)
		}
	}
	return row
}

// rule returns a rule of a table.
func rule(r table.Rule) Rule {
	switch {
	case r.Kind == table.At:
		return Rule{Saved, r.N}
	case r.Kind == table.Unsaid, r.Kind == table.Same, r.Kind == table.In && r.N == int64(r.Of):
		return Rule{}
	}
	return Rule{Where: Elsewhere}
}
