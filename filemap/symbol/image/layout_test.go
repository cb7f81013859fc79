package image

import (
	"debug/elf"
	"errors"
	"io"
	"testing"
)

const codeFlags = elf.SHF_ALLOC | elf.SHF_EXECINSTR

func code(name string, addr, size uint64) Section {
	return Section{Name: name, Type: elf.SHT_PROGBITS, Flags: codeFlags, Addr: addr, Size: size}
}

// TestSameCode: a separate file is about another layout if code of the same name is at
// another address or of another length.
func TestSameCode(t *testing.T) {
	null, data := Section{}, Section{Name: ".data", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Addr: 0x4000, Size: 8}
	text, plt := code(".text", 0x1000, 0x100), code(".plt", 0x800, 0x40)
	moved := data
	moved.Addr += 0x1000
	segment := func(addr, memory uint64) []Segment {
		return []Segment{{Addr: 0, MemSize: 0x500}, {Exec: true, Addr: addr, MemSize: memory}}
	}
	for _, c := range []struct {
		what string
		x, o Image
		want bool
	}{
		{"the same", Image{Sections: []Section{null, plt, text, data}}, Image{Sections: []Section{null, plt, text, data}}, true},
		{"data moved", Image{Sections: []Section{null, text, data}}, Image{Sections: []Section{null, text, moved}}, true},
		{"moved by little", Image{Sections: []Section{null, code(".text", 0x1028, 0x100)}}, Image{Sections: []Section{null, text}}, false},
		{"moved far", Image{Sections: []Section{null, code(".text", 0x3000001000, 0x100)}}, Image{Sections: []Section{null, text}}, false},
		{"longer", Image{Sections: []Section{null, code(".text", 0x1000, 0x120)}}, Image{Sections: []Section{null, text}}, false},
		{"one of two moved", Image{Sections: []Section{null, plt, text}}, Image{Sections: []Section{null, code(".plt", 0x840, 0x40), text}}, false},
		{"two of a name", Image{Sections: []Section{null, code(".text", 0x9000, 0x10), text}}, Image{Sections: []Section{null, text}}, true},
		{"without a section", Image{Sections: []Section{null, text}}, Image{Sections: []Section{null, text, plt}}, true},
		{"without sections", Image{Segments: segment(0x1000, 0x100)}, Image{Sections: []Section{null, text}, Segments: segment(0x1000, 0x100)}, true},
		{"without sections, moved", Image{Segments: segment(0x2000, 0x100)}, Image{Sections: []Section{null, text}, Segments: segment(0x1000, 0x100)}, false},
		{"without sections, longer", Image{Segments: segment(0x1000, 0x200)}, Image{Sections: []Section{null, text}, Segments: segment(0x1000, 0x100)}, false},
		{"nothing", Image{}, Image{}, true},
	} {
		if got := c.x.SameCode(&c.o); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestLacksCode(t *testing.T) {
	absent := code(".text", 0x1000, 0x100)
	absent.Type = elf.SHT_NOBITS
	empty := code(".init", 0, 0)
	for _, c := range []struct {
		what string
		list []Section
		want bool
	}{
		{"a program", []Section{{}, code(".text", 0x1000, 0x100)}, false},
		{"debug information", []Section{{}, empty, absent}, true},
		{"with code in part", []Section{{}, absent, code(".plt", 0x800, 0x10)}, false},
		{"no sections", nil, false},
		{"no code at all", []Section{{}, empty}, false},
	} {
		if got := (&Image{Sections: c.list}).LacksCode(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestWhole(t *testing.T) {
	at := func(off, size uint64, kind elf.SectionType) []Section {
		return []Section{{Type: kind, Name: ".x", Off: off, Size: size}}
	}
	for _, c := range []struct {
		list []Section
		want error
	}{
		{at(0, 100, elf.SHT_PROGBITS), nil}, {at(100, 0, elf.SHT_PROGBITS), nil}, {at(0, 101, elf.SHT_NOBITS), nil}, {at(500, 1, elf.SHT_NULL), nil},
		{at(0, 101, elf.SHT_PROGBITS), io.ErrUnexpectedEOF}, {at(101, 0, elf.SHT_STRTAB), io.ErrUnexpectedEOF}, {at(1, 1<<64-1, elf.SHT_STRTAB), io.ErrUnexpectedEOF},
	} {
		if err := (&Image{size: 100, Sections: c.list}).Whole(); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c.list, err)
		}
	}
}
