// Package cfi reads call frame information (.eh_frame): where functions begin
// and end, and where the frame pointer is at each of their instructions.
//
// The format is that of the Linux Standard Base, "Exception Frames", and of
// DWARF 5, 6.4. It is a stranger's: no number is believed further than its
// section, and a function has at most maxRows rows.
package cfi

import (
	"debug/elf"
	"errors"
	"fmt"
	"sort"

	"ustack/filemap/symbol/image"
)

// Where tells where the value is that a register had in the caller.
type Where uint8

const (
	// Same: in the register, nobody has touched it.
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
	// OtherBase if it is an expression; Offset is how far it is from there.
	Base   uint64
	Offset int64
	// Frame and Return are the rules of the frame pointer and of the return
	// address.
	Frame, Return Rule
}

// OtherBase is a canonical frame address that is no register plus an offset.
const OtherBase = ^uint64(0)

// Function is the information on a run of code: a function, or a part of one
// that lies elsewhere.
type Function struct {
	Start, End uint64
	// Signal marks the code that signal handlers return to.
	Signal bool
	// Rows are in the order of addresses; the first one is at Start.
	Rows []Row
}

// At is the row of an address in the function.
func (f *Function) At(addr uint64) *Row {
	i := sort.Search(len(f.Rows), func(i int) bool { return f.Rows[i].Addr > addr })
	return &f.Rows[max(i-1, 0)]
}

// Registers are the DWARF numbers of a machine's registers.
type Registers struct{ Frame, Stack, Return uint64 }

// RegistersOf are those of a machine, by the psABI of x86-64 (figure 3.36) and
// "DWARF for the Arm 64-bit Architecture" (4.1).
func RegistersOf(m elf.Machine) (r Registers, ok bool) {
	switch m {
	case elf.EM_X86_64:
		return Registers{Frame: 6, Stack: 7, Return: 16}, true
	case elf.EM_AARCH64:
		return Registers{Frame: 29, Stack: 31, Return: 30}, true
	}
	return r, false
}

// Bounds on what a file can have.
const (
	maxFunctions = 4 << 20
	maxEntry     = 1 << 16 // bytes of a CIE or FDE
	maxRows      = 1 << 13
	maxDepth     = 64 // of remembered states
)

// Table is the call frame information of a file.
type Table struct {
	regs    Registers
	header  image.Data // the table of .eh_frame_hdr
	base    uint64     // what its numbers are counted from
	n       uint64
	section *image.Section
	frames  image.Data
}

// ErrNone is the error of a file without the information.
var ErrNone = errors.New("no call frame information with a table (.eh_frame_hdr)")

// errDamaged is the error of information that makes no sense.
var errDamaged = errors.New("damaged call frame information")

// Open reads the header of a file's information.
func Open(x *image.Image) (*Table, error) {
	regs, ok := RegistersOf(x.Machine)
	hdr, frames := x.Section(".eh_frame_hdr"), x.Section(".eh_frame")
	if !ok || x.Order.Uint16([]byte{1, 0}) != 1 || hdr == nil || frames == nil {
		return nil, ErrNone
	}
	t := &Table{regs: regs, base: hdr.Addr, section: frames}
	var err error
	if t.header, err = x.Data(hdr); err != nil {
		return nil, fmt.Errorf("reading .eh_frame_hdr: %w", err)
	}
	if t.frames, err = x.Data(frames); err != nil {
		return nil, fmt.Errorf("reading .eh_frame: %w", err)
	}
	const size = 12
	b, err := t.header.Bytes(0, size)
	if err != nil {
		return nil, ErrNone
	}
	// Version 1, and the encodings that all linkers write: of the pointer to
	// .eh_frame 4 bytes, of the count udata4, of the table sdata4, counted from
	// the header.
	if b[0] != 1 || b[1]&7 != 3 || b[2] != 0x03 || b[3] != 0x3b {
		return nil, ErrNone
	}
	t.n = uint64(le32(b[8:]))
	if t.n > maxFunctions {
		return nil, fmt.Errorf(".eh_frame_hdr tells of %d functions", t.n)
	}
	if b, err = t.header.Bytes(size, t.n*8); err != nil {
		return nil, fmt.Errorf("reading .eh_frame_hdr: %w", err)
	}
	t.header = image.MemoryData(b)
	return t, nil
}

// Memory is about how many bytes are kept.
func (t *Table) Memory() int { return t.header.Memory() + t.frames.Memory() }

// Find is the information on the code at an address, nil if there is none.
func (t *Table) Find(addr uint64) *Function {
	start := func(i int) uint64 { return t.number(2 * i) }
	i := sort.Search(int(t.n), func(i int) bool { return start(i) > addr }) - 1
	if i < 0 {
		return nil
	}
	f, err := t.function(t.number(2*i + 1))
	if err != nil || f.Start != start(i) || addr >= f.End {
		return nil
	}
	return f
}

// number is an address of the table.
func (t *Table) number(i int) uint64 {
	b, err := t.header.Bytes(uint64(i)*4, 4)
	if err != nil {
		return 0
	}
	return t.base + uint64(int64(int32(le32(b))))
}

// function reads an FDE and runs it.
func (t *Table) function(addr uint64) (*Function, error) {
	fde, err := t.entry(addr)
	if err != nil {
		return nil, err
	}
	at := fde.addr
	back := uint64(fde.u32()) // from here to the CIE
	cie, err := t.common(at - back)
	if err != nil {
		return nil, err
	}
	f := &Function{Signal: cie.signal}
	f.Start = fde.pointer(cie.pointers)
	f.End = f.Start + fde.pointer(cie.pointers&0x0f)
	if cie.augmented {
		fde.skip(fde.uleb())
	}
	if fde.bad || f.End <= f.Start {
		return nil, errDamaged
	}
	u := runner{cie: cie, regs: t.regs, row: Row{Base: OtherBase}}
	if !u.run(cie.program) {
		return nil, errDamaged
	}
	u.row.Addr, u.rows, u.stack = f.Start, nil, nil
	u.initial = u.row
	if !u.run(fde) {
		return nil, errDamaged
	}
	f.Rows = append(u.rows, u.row)
	return f, nil
}

// entry is the inside of a CIE or FDE, behind its length.
func (t *Table) entry(addr uint64) (reader, error) {
	off := addr - t.section.Addr
	b, err := t.frames.Bytes(off, 4)
	if err != nil {
		return reader{}, err
	}
	n := uint64(le32(b))
	if n < 4 || n > maxEntry { // a length of 64 bits is not worth it
		return reader{}, errDamaged
	}
	b, err = t.frames.Bytes(off+4, n)
	return reader{b: b, addr: addr + 4}, err
}

// common is a CIE: what functions have in common.
type common struct {
	code      uint64
	data      int64
	pointers  encoding
	augmented bool
	signal    bool
	program   reader
}

// common reads a CIE.
func (t *Table) common(addr uint64) (*common, error) {
	r, err := t.entry(addr)
	if err != nil {
		return nil, err
	}
	id, version, letters := r.u32(), r.u8(), r.text()
	if id != 0 || version != 1 && version != 3 || letters != "" && letters[0] != 'z' {
		return nil, errDamaged
	}
	c := &common{code: r.uleb(), data: r.sleb()}
	returns := uint64(0)
	if version == 1 {
		returns = uint64(r.u8())
	} else {
		returns = r.uleb()
	}
	const maxFactor = 64
	if returns != t.regs.Return || c.code > maxFactor || c.data > maxFactor || c.data < -maxFactor || !c.augment(&r, letters) || r.bad {
		return nil, errDamaged
	}
	c.program = r
	return c, nil
}

// augment reads what the letters of a CIE announce.
func (c *common) augment(r *reader, letters string) bool {
	if letters == "" {
		return true
	}
	c.augmented = true
	n := r.uleb()
	in := reader{addr: r.addr}
	in.b = r.take(n)
	for _, letter := range letters[1:] {
		switch letter {
		case 'R':
			c.pointers = encoding(in.u8())
		case 'P':
			in.skip(encoding(in.u8()).size())
		case 'L':
			in.u8()
		case 'S':
			c.signal = true
		case 'B', 'G': // arm64: return addresses are signed by key B; tagged memory
		default:
			return false
		}
	}
	return !in.bad
}
