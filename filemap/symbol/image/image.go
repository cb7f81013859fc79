// Package image reads of an ELF file what symbols need: where its code lies,
// its sections, its symbol tables and its links to files with debug
// information.
//
// An ELF file is untrusted: no number in it is believed further than the
// file's own size, compressed data has a bound, and malformed data is
// an error or is not there.
package image

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Bounds on what a file can have.
const (
	maxSegments = 256     // MAX_PHDR_CNT of lib/buildid.c
	maxSections = 1 << 16 // beyond SHN_LORESERVE there are but vmlinux-like objects
	maxNames    = 4 << 20 // bytes of the section names
)

// ErrNotELF is the error of a file that is no ELF program, library or file of
// debug information.
var ErrNotELF = errors.New("not an ELF program or library")

// Segment is a loaded part of the file (PT_LOAD).
type Segment struct {
	Exec, Write         bool
	Off, Addr, FileSize uint64
	MemSize             uint64 // what is after FileSize is zeros: .bss
}

// Section is one section header with its name.
type Section struct {
	Name                 string
	Type                 elf.SectionType
	Flags                elf.SectionFlag
	Addr, Off, Size, Ent uint64
	Link                 uint32
}

// Holds reports whether the section is code that holds an address.
func (s *Section) Holds(addr uint64) bool {
	return s.Flags&elf.SHF_EXECINSTR != 0 && s.Addr <= addr && addr-s.Addr < s.Size && s.Addr+s.Size > s.Addr
}

// IsData reports whether the section is data that programs write, but not the
// template of thread-local variables.
func (s *Section) IsData() bool {
	const kind = elf.SHF_ALLOC | elf.SHF_WRITE | elf.SHF_EXECINSTR | elf.SHF_TLS
	return s.Flags&kind == elf.SHF_ALLOC|elf.SHF_WRITE
}

// Image is an ELF file. It is not for several goroutines at once.
type Image struct {
	Machine  elf.Machine
	Order    binary.ByteOrder
	Segments []Segment
	Sections []Section

	r    io.ReaderAt
	size uint64
	kind elf.Type
	wide bool // 64 bits

	unpacked uint64 // bytes of the sections that were compressed
}

// Open reads the headers of a file of so many bytes. r must stay readable as
// long as the Image is in use.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	x, err := OpenAny(r, size)
	if err == nil && x.kind != elf.ET_EXEC && x.kind != elf.ET_DYN {
		return nil, ErrNotELF
	}
	return x, err
}

// OpenAny is Open for ELF files of all types: what dwz makes is a relocatable
// one.
func OpenAny(r io.ReaderAt, size int64) (*Image, error) {
	x := &Image{r: r, size: uint64(max(size, 0))}
	h, err := x.read(0, min(64, x.size))
	if err != nil {
		return nil, fmt.Errorf("reading the ELF header: %w", err)
	}
	if len(h) < 52 || string(h[:4]) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	switch elf.Data(h[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		x.Order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		x.Order = binary.BigEndian
	default:
		return nil, ErrNotELF
	}
	x.wide = elf.Class(h[elf.EI_CLASS]) == elf.ELFCLASS64
	if x.wide && len(h) < 64 {
		return nil, ErrNotELF
	}
	x.kind = elf.Type(x.Order.Uint16(h[16:]))
	x.Machine = elf.Machine(x.Order.Uint16(h[18:]))
	return x, x.headers(h)
}

// headers reads the tables that the ELF header names.
func (x *Image) headers(h []byte) error {
	phoff, shoff, tail := uint64(0), uint64(0), h[42:]
	if x.wide {
		phoff, shoff, tail = x.Order.Uint64(h[32:]), x.Order.Uint64(h[40:]), h[54:]
	} else {
		phoff, shoff = uint64(x.Order.Uint32(h[28:])), uint64(x.Order.Uint32(h[32:]))
	}
	u16 := func(i int) uint64 { return uint64(x.Order.Uint16(tail[2*i:])) }
	if err := x.segments(phoff, u16(0), u16(1)); err != nil {
		return err
	}
	return x.sections(shoff, u16(2), u16(3), u16(4))
}

// segments reads the program headers.
func (x *Image) segments(off, each, n uint64) error {
	want := uint64(32)
	if x.wide {
		want = 56
	}
	if off == 0 || n == 0 {
		return nil
	}
	if each != want || n > maxSegments {
		return fmt.Errorf("%d program headers of %d bytes", n, each)
	}
	b, err := x.read(off, n*each)
	if err != nil {
		return fmt.Errorf("reading the program headers: %w", err)
	}
	for ; len(b) > 0; b = b[each:] {
		if elf.ProgType(x.Order.Uint32(b)) != elf.PT_LOAD {
			continue
		}
		var s Segment
		if x.wide {
			s.permit(elf.ProgFlag(x.Order.Uint32(b[4:])))
			s.Off, s.Addr = x.Order.Uint64(b[8:]), x.Order.Uint64(b[16:])
			s.FileSize, s.MemSize = x.Order.Uint64(b[32:]), x.Order.Uint64(b[40:])
		} else {
			s.permit(elf.ProgFlag(x.Order.Uint32(b[24:])))
			s.Off, s.Addr = x.word(b[4:]), x.word(b[8:])
			s.FileSize, s.MemSize = x.word(b[16:]), x.word(b[20:])
		}
		x.Segments = append(x.Segments, s)
	}
	return nil
}

func (s *Segment) permit(flags elf.ProgFlag) {
	s.Exec, s.Write = flags&elf.PF_X != 0, flags&elf.PF_W != 0
}

// Wide reports whether the file is one of 64 bits.
func (x *Image) Wide() bool { return x.wide }

// Fixed reports whether the file is linked to the addresses that it has in
// memory.
func (x *Image) Fixed() bool { return x.kind == elf.ET_EXEC }

// sections reads the section headers and their names.
func (x *Image) sections(off, each, n, names uint64) error {
	want := uint64(40)
	if x.wide {
		want = 64
	}
	if off == 0 {
		return nil
	}
	if each != want {
		return fmt.Errorf("section headers of %d bytes", each)
	}
	if n == 0 || names == uint64(elf.SHN_XINDEX) { // then the first header has them
		first, err := x.read(off, each)
		if err != nil {
			return fmt.Errorf("reading the section headers: %w", err)
		}
		s := x.section(first)
		if n == 0 {
			n = s.Size
		}
		if names == uint64(elf.SHN_XINDEX) {
			names = uint64(s.Link)
		}
	}
	if n > maxSections {
		return fmt.Errorf("%d sections", n)
	}
	b, err := x.read(off, n*each)
	if err != nil {
		return fmt.Errorf("reading the section headers: %w", err)
	}
	x.Sections = make([]Section, 0, n)
	where := make([]uint32, 0, n)
	for ; len(b) > 0; b = b[each:] {
		x.Sections = append(x.Sections, x.section(b))
		where = append(where, x.Order.Uint32(b))
	}
	if names >= n {
		return nil
	}
	table, err := x.raw(&x.Sections[names], maxNames)
	if err != nil {
		return fmt.Errorf("reading the names of the sections: %w", err)
	}
	for i := range x.Sections {
		x.Sections[i].Name = shortString(table, uint64(where[i]))
	}
	return nil
}

// section reads one section header.
func (x *Image) section(b []byte) Section {
	o := x.Order
	s := Section{Type: elf.SectionType(o.Uint32(b[4:]))}
	if x.wide {
		s.Flags = elf.SectionFlag(o.Uint64(b[8:]))
		s.Addr, s.Off, s.Size = o.Uint64(b[16:]), o.Uint64(b[24:]), o.Uint64(b[32:])
		s.Link, s.Ent = o.Uint32(b[40:]), o.Uint64(b[56:])
	} else {
		s.Flags = elf.SectionFlag(o.Uint32(b[8:]))
		s.Addr, s.Off, s.Size = x.word(b[12:]), x.word(b[16:]), x.word(b[20:])
		s.Link, s.Ent = o.Uint32(b[24:]), x.word(b[36:])
	}
	return s
}

func (x *Image) word(b []byte) uint64 { return uint64(x.Order.Uint32(b)) }

// shortString returns the string at a place of a string table; no section has a
// longer name.
func shortString(table []byte, at uint64) string {
	const longest = 64
	if at >= uint64(len(table)) {
		return ""
	}
	table = table[at:min(uint64(len(table)), at+longest)]
	for i, c := range table {
		if c == 0 {
			return string(table[:i])
		}
	}
	return ""
}

// read reads bytes of the file. It fails if the file does not have them, so
// no more memory is taken than the file has bytes.
func (x *Image) read(off, n uint64) ([]byte, error) {
	if off > x.size || n > x.size-off {
		return nil, fmt.Errorf("%d bytes at %#x of a file of %d: %w", n, off, x.size, io.ErrUnexpectedEOF)
	}
	b := make([]byte, n)
	if _, err := x.r.ReadAt(b, int64(off)); err != nil && (err != io.EOF || n > 0) {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, off, err)
	}
	return b, nil
}

// IsCode reports whether an address lies in a segment of code.
func (x *Image) IsCode(addr uint64) bool {
	for i := range x.Segments {
		if s := &x.Segments[i]; s.Exec && addr >= s.Addr && addr-s.Addr < s.FileSize {
			return true
		}
	}
	return false
}

// Size returns the number of bytes of the file.
func (x *Image) Size() int64 { return int64(x.size) }

// Entry returns the address that a program begins at, 0 if unknown.
func (x *Image) Entry() uint64 {
	const at = 24 // e_entry
	size := uint64(4)
	if x.wide {
		size = 8
	}
	b, err := x.read(at, size)
	if err != nil {
		return 0
	}
	if x.wide {
		return x.Order.Uint64(b)
	}
	return x.word(b)
}

// Section finds a section by its name, nil if there is none.
func (x *Image) Section(name string) *Section {
	for i := range x.Sections {
		if x.Sections[i].Name == name {
			return &x.Sections[i]
		}
	}
	return nil
}

// Has reports whether the file has the bytes of a section: the section headers of a
// separate debug file describe code that is not in it (SHT_NOBITS).
func (x *Image) Has(name string) bool {
	s := x.Section(name)
	return s != nil && s.Type != elf.SHT_NOBITS && s.Size > 0
}

// Code returns the n bytes before a file offset.
func (x *Image) Code(off, n uint64) ([]byte, error) {
	if off < n {
		return nil, io.ErrUnexpectedEOF
	}
	return x.read(off-n, n)
}

// Address returns the virtual address of a file offset in code. ok is false if
// the offset is not in a segment of code, or in several that disagree.
func (x *Image) Address(off uint64) (addr uint64, ok bool) {
	for i := range x.Segments {
		s := &x.Segments[i]
		if !s.Exec || off < s.Off || off-s.Off >= s.FileSize {
			continue
		}
		at := s.Addr + (off - s.Off)
		if ok && at != addr {
			return 0, false
		}
		addr, ok = at, true
	}
	return addr, ok
}
