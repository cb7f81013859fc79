package image

import (
	"debug/elf"
	"fmt"
	"strings"
)

// maxSymbols bounds a symbol table; the largest programs have about two
// millions.
const maxSymbols = 16 << 20

// Symbol is an entry of a symbol table that can name code.
type Symbol struct {
	Addr, Size uint64
	Name       uint32 // place in the string table
	Section    uint16 // index in Image.Sections
	Type       elf.SymType
	Bind       elf.SymBind
}

// Table finds a symbol table by its type, SHT_SYMTAB or SHT_DYNSYM, nil if the
// file has none.
func (x *Image) Table(kind elf.SectionType) *Section {
	for i := range x.Sections {
		if s := &x.Sections[i]; s.Type == kind && s.Size > 0 {
			return s
		}
	}
	return nil
}

// Strings opens the string table of a symbol table.
func (x *Image) Strings(table *Section) (Data, error) {
	if table.Link == 0 || int(table.Link) >= len(x.Sections) {
		return Data{}, fmt.Errorf("%s has no string table", table.Name)
	}
	return x.Data(&x.Sections[table.Link])
}

// Symbols calls f for the symbols of a table that stand for a place in a
// section of this file: functions, objects and labels. Undefined and absolute
// ones, sections, source files and thread-local variables do not.
func (x *Image) Symbols(table *Section, f func(Symbol)) error {
	each := uint64(16)
	if x.wide {
		each = 24
	}
	d, err := x.Data(table)
	if err != nil {
		return err
	}
	n := d.Size() / each
	if n > maxSymbols {
		return fmt.Errorf("%s has %d symbols: %w", table.Name, n, errTooLarge)
	}
	const batch = 2048
	for i := uint64(0); i < n; i += batch {
		b, err := d.Bytes(i*each, min(batch, n-i)*each)
		if err != nil {
			return fmt.Errorf("reading %s: %w", table.Name, err)
		}
		for ; len(b) > 0; b = b[each:] {
			if s, ok := x.symbol(b); ok {
				f(s)
			}
		}
	}
	return nil
}

// symbol reads one entry.
func (x *Image) symbol(b []byte) (Symbol, bool) {
	o := x.Order
	s := Symbol{Name: o.Uint32(b)}
	var info byte
	if x.wide {
		info, s.Section = b[4], o.Uint16(b[6:])
		s.Addr, s.Size = o.Uint64(b[8:]), o.Uint64(b[16:])
	} else {
		s.Addr, s.Size = x.word(b[4:]), x.word(b[8:])
		info, s.Section = b[12], o.Uint16(b[14:])
	}
	s.Type, s.Bind = elf.ST_TYPE(info), elf.ST_BIND(info)
	switch s.Type {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		if x.Machine == elf.EM_ARM {
			s.Addr &^= 1 // Thumb code
		}
	case elf.STT_NOTYPE, elf.STT_OBJECT:
	default:
		return s, false
	}
	return s, s.Name != 0 && s.Section != 0 && int(s.Section) < len(x.Sections)
}

// IsMarker reports whether a name is a mark, not a function's: the mapping
// symbols $x and $d of Arm and RISC-V, with or without more after a dot; local
// labels; and what Go's linker calls the code of a C object file as a whole,
// "runtime/cgo(.text)".
func (x *Image) IsMarker(name string) bool {
	if strings.HasPrefix(name, ".L") || name == "" {
		return true
	}
	if name[len(name)-1] == ')' && x.IsGo() {
		return strings.Contains(name, "(.text")
	}
	if name[0] != '$' || len(name) < 2 {
		return false
	}
	switch x.Machine {
	case elf.EM_AARCH64, elf.EM_ARM, elf.EM_RISCV:
		return strings.IndexByte("xdat", name[1]) >= 0 && (len(name) == 2 || name[2] == '.' || x.Machine == elf.EM_RISCV)
	}
	return false
}

// IsGo reports whether the file was linked by Go.
func (x *Image) IsGo() bool {
	return x.Section(".gopclntab") != nil || x.Section(".note.go.buildid") != nil
}
