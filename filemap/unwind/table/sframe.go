package table

import (
	"encoding/binary"
	"fmt"
	"sort"

	"ustack/filemap/symbol/image"
)

// simple is a section .sframe. Version 1 is "The SFrame format" of binutils
// 2.40, version 2 is from 2.41 to 2.45, version 3 from 2.46.
type simple struct {
	data      blocks
	addr      uint64
	machine   *machine
	version   byte
	flags     byte
	fixedFP   int64 // where FP is saved, from the CFA; 0 if rows say so
	fixedRA   int64
	n         uint64 // functions
	functions uint64 // offset of their descriptors
	rows      uint64 // offset of the rows
	rowBytes  uint64
	sorted    bool
	order     []place // by address, if the linker has not sorted them
	base      uint64
}

const (
	simpleSorted  = 1 << 0 // SFRAME_F_FDE_SORTED
	simpleHere    = 1 << 2 // SFRAME_F_FDE_FUNC_START_PCREL
	simpleMagic   = 0xdee2
	simpleAMD64   = 3
	simpleAArch64 = 2 // little endian
)

// openSimple reads the header.
func openSimple(d image.Data, addr uint64, m *machine) (*simple, error) {
	const size = 28
	h, err := d.Bytes(0, size)
	if err != nil {
		return nil, fmt.Errorf("reading .sframe: %w", err)
	}
	u32 := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(h[i:])) }
	s := &simple{data: newBlocks(d), addr: addr, machine: m, version: h[2], flags: h[3]}
	abi := byte(simpleAMD64)
	if m.arm64 {
		abi = simpleAArch64
	}
	if binary.LittleEndian.Uint16(h) != simpleMagic || s.version < 1 || s.version > 3 || h[4] != abi {
		return nil, ErrNone
	}
	s.fixedFP, s.fixedRA = int64(int8(h[5])), int64(int8(h[6]))
	begin := size + uint64(h[7])
	s.n, s.rowBytes = u32(8), u32(16)
	s.functions, s.rows = begin+u32(20), begin+u32(24)
	total := d.Size()
	if s.n > maxFunctions || s.functions+s.n*s.each() > total || s.rows > total || s.rowBytes > total-s.rows {
		return nil, fmt.Errorf("reading .sframe: %w", errDamaged)
	}
	s.sorted = s.flags&simpleSorted != 0
	if !s.sorted {
		s.sort()
	}
	return s, nil
}

// each returns the size of a function's descriptor.
func (s *simple) each() uint64 { return [...]uint64{17, 20, 16}[s.version-1] }

func (s *simple) memory() int { return s.data.memory() + 8*len(s.order) }

// descriptor is what .sframe says about a function.
type descriptor struct {
	start, size uint64
	rows        uint64 // offset of its first row
	n           uint64
	info, info2 byte
	repeat      uint64 // the length of a repeated piece of code, 0 if there is none
}

// start returns where the function with a number begins.
func (s *simple) start(i uint64) uint64 {
	at := s.functions + i*s.each()
	wide := uint64(4)
	if s.version == 3 {
		wide = 8
	}
	b := s.data.bytes(at, wide)
	if b == nil {
		return 0
	}
	from := s.addr
	if s.flags&simpleHere != 0 {
		from += at
	}
	if wide == 8 {
		return from + binary.LittleEndian.Uint64(b)
	}
	return from + uint64(int64(int32(binary.LittleEndian.Uint32(b))))
}

// sort makes an index of a section that is not sorted, as before linking.
func (s *simple) sort() {
	s.base = ^uint64(0)
	for i := range s.n {
		s.base = min(s.base, s.start(i))
	}
	for i := range s.n {
		if d := s.start(i) - s.base; d < 1<<32 {
			s.order = append(s.order, place{uint32(d), uint32(i)})
		}
	}
	sort.SliceStable(s.order, func(i, j int) bool { return s.order[i].start < s.order[j].start })
}

// function returns the descriptor of the code at an address.
func (s *simple) function(addr uint64) (d descriptor, ok bool) {
	i := 0
	if s.sorted {
		i = sort.Search(int(s.n), func(i int) bool { return s.start(uint64(i)) > addr }) - 1
	} else {
		i = sort.Search(len(s.order), func(i int) bool { return s.base+uint64(s.order[i].start) > addr }) - 1
		if i >= 0 {
			i = int(s.order[i].off)
		}
	}
	if i < 0 {
		return d, false
	}
	d, ok = s.descriptor(uint64(i))
	return d, ok && addr >= d.start && addr-d.start < d.size
}

// descriptor reads a descriptor; version 3 has half of it before the rows.
func (s *simple) descriptor(i uint64) (d descriptor, ok bool) {
	b := s.data.bytes(s.functions+i*s.each(), s.each())
	if b == nil {
		return d, false
	}
	d.start = s.start(i)
	if s.version == 3 {
		const attributes = 5
		d.size, d.rows = uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:]))
		if d.rows > s.rowBytes || s.rowBytes-d.rows < attributes {
			return d, false
		}
		if b = s.data.bytes(s.rows+d.rows, attributes); b == nil {
			return d, false
		}
		d.n, d.info, d.info2, d.repeat = uint64(binary.LittleEndian.Uint16(b)), b[2], b[3], uint64(b[4])
		d.rows += attributes
	} else {
		d.size, d.rows = uint64(binary.LittleEndian.Uint32(b[4:])), uint64(binary.LittleEndian.Uint32(b[8:]))
		d.n, d.info = uint64(binary.LittleEndian.Uint32(b[12:])), b[16]
		if s.version == 2 {
			d.repeat = uint64(b[17])
		}
	}
	if d.info>>4&1 == 0 {
		d.repeat = 0
	} else if d.repeat == 0 {
		d.repeat = 16 // what version 1 means: entries of the PLT
	}
	return d, d.start+d.size > d.start
}

// row is a frame row entry.
type simpleRow struct {
	info  byte
	words [6]int64
	raw   [6]uint64 // unsigned, as control words are
	n     int
}

// find reads the rows of a function up to an address.
func (s *simple) find(addr uint64, t *Table) (*Rules, error) {
	d, ok := s.function(addr)
	if !ok {
		return nil, nil
	}
	at := addr - d.start
	if d.repeat > 0 {
		at %= d.repeat
	}
	if d.rows > s.rowBytes || d.n > min(s.rowBytes-d.rows, maxRows) {
		return nil, errDamaged
	}
	wide := uint64(1) << (d.info & 0x0f)
	if wide > 4 {
		return nil, errDamaged
	}
	var last simpleRow
	found := false
	off := s.rows + d.rows
	for range d.n {
		start, row, size, ok := s.row(off, wide)
		if !ok {
			return nil, errDamaged
		}
		if start > at {
			break
		}
		last, found = row, true
		off += size
	}
	if !found {
		return nil, nil
	}
	if !s.rules(d, &last, &t.scratch) {
		return nil, errDamaged
	}
	return t.own(), nil
}

// row reads the row at an offset and returns its size.
func (s *simple) row(off, wide uint64) (start uint64, row simpleRow, size uint64, ok bool) {
	end := s.rows + s.rowBytes
	if off > end || wide+1 > end-off {
		return 0, row, 0, false
	}
	r := reader{b: s.data.bytes(off, wide+1)}
	start = r.unsigned(wide)
	row.info = r.u8()
	row.n = int(row.info >> 1 & 0x0f)
	each := uint64(1) << (row.info >> 5 & 3)
	size = wide + 1 + each*uint64(row.n)
	if r.bad || each > 4 || row.n > len(row.words) || size > end-off {
		return 0, row, 0, false
	}
	r = reader{b: s.data.bytes(off+wide+1, each*uint64(row.n))}
	for i := range row.n {
		v := r.unsigned(each)
		row.raw[i] = v
		shift := 64 - 8*each
		row.words[i] = int64(v<<shift) >> shift
	}
	return start, row, size, !r.bad
}

// unsigned reads a number of 1, 2 or 4 bytes.
func (r *reader) unsigned(n uint64) uint64 {
	switch n {
	case 1:
		return uint64(r.u8())
	case 2:
		return uint64(r.u16())
	}
	return uint64(r.u32())
}
