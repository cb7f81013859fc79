package image

import (
	"debug/elf"
	"fmt"
)

// maxRelocations bounds the relocations that are looked at; the largest
// programs have a million, most of them without a symbol.
const maxRelocations = 4 << 20

// Slots returns the pointers that the dynamic linker fills with addresses of
// symbols, by address: the names of what calls through them lead to.
func (x *Image) Slots() (map[uint64]string, error) {
	const each = 24 // Elf64_Rela
	slots := make(map[uint64]string)
	table := x.Table(elf.SHT_DYNSYM)
	if table == nil || !x.wide {
		return slots, nil
	}
	names, err := x.Strings(table)
	if err != nil {
		return nil, err
	}
	symbols, err := x.Data(table)
	if err != nil {
		return nil, err
	}
	for i := range x.Sections {
		s := &x.Sections[i]
		if s.Type != elf.SHT_RELA || int(s.Link) >= len(x.Sections) || &x.Sections[s.Link] != table {
			continue
		}
		d, err := x.Data(s)
		if err != nil {
			return nil, err
		}
		n := d.Size() / each
		if n > maxRelocations {
			return nil, fmt.Errorf("%s has %d relocations: %w", s.Name, n, errTooLarge)
		}
		b, err := d.Bytes(0, n*each)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.Name, err)
		}
		for ; len(b) > 0; b = b[each:] {
			info := x.Order.Uint64(b[8:])
			if !x.linksFunction(uint32(info)) {
				continue
			}
			if name, ok := x.symbolName(&symbols, &names, info>>32); ok {
				slots[x.Order.Uint64(b)] = name
			}
		}
	}
	return slots, nil
}

// linksFunction reports whether a relocation makes a pointer to a symbol.
func (x *Image) linksFunction(kind uint32) bool {
	switch x.Machine {
	case elf.EM_X86_64:
		return elf.R_X86_64(kind) == elf.R_X86_64_JMP_SLOT || elf.R_X86_64(kind) == elf.R_X86_64_GLOB_DAT
	case elf.EM_AARCH64:
		return elf.R_AARCH64(kind) == elf.R_AARCH64_JUMP_SLOT || elf.R_AARCH64(kind) == elf.R_AARCH64_GLOB_DAT
	}
	return false
}

// symbolName returns the name of a symbol by its number.
func (x *Image) symbolName(symbols, names *Data, number uint64) (string, bool) {
	const each = 24 // Elf64_Sym
	b, err := symbols.Bytes(number*each, each)
	if err != nil || number == 0 {
		return "", false
	}
	name, ok := names.String(uint64(x.Order.Uint32(b)))
	return name, ok && name != ""
}

// Exports returns the functions that other files can call, by name: several
// addresses if there are versions. Functions that a resolver chooses (IFUNC)
// are not among them.
func (x *Image) Exports() (map[string][]uint64, error) {
	exports := make(map[string][]uint64)
	table := x.Table(elf.SHT_DYNSYM)
	if table == nil {
		return exports, nil
	}
	names, err := x.Strings(table)
	if err != nil {
		return nil, err
	}
	err = x.Symbols(table, func(s Symbol) {
		if s.Type != elf.STT_FUNC || s.Bind == elf.STB_LOCAL {
			return
		}
		if name, ok := names.String(uint64(s.Name)); ok {
			exports[name] = append(exports[name], s.Addr)
		}
	})
	return exports, err
}

// Offset returns the file offset of a virtual address in code, the opposite of
// Address. ok is false if that does not lead back to the address.
func (x *Image) Offset(addr uint64) (off uint64, ok bool) {
	for i := range x.Segments {
		if s := &x.Segments[i]; s.Exec && addr >= s.Addr && addr-s.Addr < s.FileSize {
			off = s.Off + (addr - s.Addr)
			back, ok := x.Address(off)
			return off, ok && back == addr
		}
	}
	return 0, false
}

// CodeAt is up to n bytes of code from an address on: less at the end of the
// segment.
func (x *Image) CodeAt(addr, n uint64) ([]byte, error) {
	for i := range x.Segments {
		if s := &x.Segments[i]; s.Exec && addr >= s.Addr && addr-s.Addr < s.FileSize {
			return x.read(s.Off+(addr-s.Addr), min(n, s.FileSize-(addr-s.Addr)))
		}
	}
	return nil, fmt.Errorf("no code at %#x", addr)
}

// InCode returns the section of code that holds an address, nil if there is
// none.
func (x *Image) InCode(addr uint64) *Section {
	for i := range x.Sections {
		if s := &x.Sections[i]; s.Holds(addr) {
			return s
		}
	}
	return nil
}
