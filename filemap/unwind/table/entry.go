package table

import (
	"encoding/binary"
	"errors"
)

// errDamaged is the error of malformed information.
var errDamaged = errors.New("damaged unwind information")

// Bounds on what a file can have.
const (
	maxEntry  = 1 << 16 // bytes of a CIE or FDE
	maxCommon = 1 << 12 // CIEs that are kept
)

// frames is a section of call frame information.
type frames struct {
	blocks  blocks
	addr    uint64 // of the section; 0 for .debug_frame
	debug   bool   // .debug_frame
	machine *machine
	commons map[uint64]*common
}

// entry is a CIE or FDE after its length.
type entry struct {
	reader
	at   uint64 // the offset of its length
	next uint64 // the offset of the next one
	wide bool   // 64-bit DWARF
}

// entry reads the entry at an offset. Its reader is empty if it is only a mark
// of the end.
func (f *frames) entry(off uint64) (e entry, ok bool) {
	b := f.blocks.bytes(off, 4)
	if b == nil {
		return e, false
	}
	n, head := uint64(binary.LittleEndian.Uint32(b)), uint64(4)
	if n == 0xffffffff {
		if b = f.blocks.bytes(off+4, 8); b == nil || !f.debug {
			return e, false
		}
		n, head, e.wide = binary.LittleEndian.Uint64(b), 12, true
	}
	size := f.blocks.size()
	if n > size-off-head {
		return e, false
	}
	e.at, e.next = off, off+head+n
	if n > maxEntry {
		e.bad = true
		return e, true
	}
	e.b, e.addr = f.blocks.bytes(off+head, n), f.addr+off+head
	return e, e.b != nil || n == 0
}

// identity reads the number that a CIE and an FDE differ in: where the FDE's
// CIE is.
func (f *frames) identity(e *entry) (cie uint64, isCIE bool) {
	here := e.next - uint64(len(e.b))
	id, none := uint64(e.u32()), uint64(0xffffffff)
	if e.wide {
		id |= uint64(e.u32()) << 32
		none = ^uint64(0)
	}
	if f.debug {
		return id, id == none
	}
	return here - id, id == 0
}

// span reads which code an FDE is about; what follows in e is its program.
func (f *frames) span(e *entry) (c *common, start, size uint64, ok bool) {
	at, isCIE := f.identity(e)
	if isCIE || e.bad {
		return nil, 0, 0, false
	}
	if c = f.common(at); c == nil {
		return nil, 0, 0, false
	}
	start = e.pointer(c.pointers)
	size = e.number(c.pointers & 0x0f)
	if c.augmented {
		e.skip(e.uleb())
	}
	return c, start, size, !e.bad && size > 0 && start+size > start
}

// common is a CIE: what functions have in common.
type common struct {
	code      uint64
	data      int64
	returns   uint64 // the column of the return address
	pointers  encoding
	augmented bool
	signal    bool
	program   reader
	initial   *state // after the program, nil if that is malformed
}

// common returns the CIE at an offset, nil if it is damaged.
func (f *frames) common(off uint64) *common {
	if c, ok := f.commons[off]; ok {
		return c
	}
	c, err := f.readCommon(off)
	if err != nil {
		c = nil
	}
	if f.commons == nil || len(f.commons) >= maxCommon {
		f.commons = make(map[uint64]*common)
	}
	f.commons[off] = c
	return c
}

func (f *frames) readCommon(off uint64) (*common, error) {
	e, ok := f.entry(off)
	if !ok {
		return nil, errDamaged
	}
	if _, isCIE := f.identity(&e); !isCIE {
		return nil, errDamaged
	}
	version, letters := e.u8(), e.text()
	if version != 1 && version != 3 && (version != 4 || !f.debug) || letters != "" && letters[0] != 'z' {
		return nil, errDamaged
	}
	if version == 4 {
		if address, segment := e.u8(), e.u8(); address != 8 || segment != 0 {
			return nil, errDamaged
		}
	}
	c := &common{code: e.uleb(), data: e.sleb()}
	if version == 1 {
		c.returns = uint64(e.u8())
	} else {
		c.returns = e.uleb()
	}
	const maxFactor = 64
	if c.returns >= Registers || c.code > maxFactor || c.data > maxFactor || c.data < -maxFactor || !c.augment(&e.reader, letters) || e.bad {
		return nil, errDamaged
	}
	c.program = reader{b: append([]byte(nil), e.b...), addr: e.addr}
	first := state{}
	run := runner{common: c, state: &first, machine: f.machine, until: ^uint64(0)}
	if run.run(c.program) && run.moved == 0 {
		c.initial = &first
	}
	return c, nil
}

// augment reads what the letters of a CIE announce (LSB, 10.6.1.1.1). 'B' and
// 'G' are arm64's: signed with key B, tagged memory.
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
			if e := encoding(in.u8()); e != encodingOmitted {
				in.number(e)
			}
		case 'L':
			in.u8()
		case 'S':
			c.signal = true
		case 'B', 'G':
		default:
			return false
		}
	}
	return !in.bad
}
