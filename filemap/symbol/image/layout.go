package image

import (
	"debug/elf"
	"fmt"
	"io"
)

// isCode reports whether a section is code of the file, be it in it or not.
func (s *Section) isCode() bool {
	const code = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	return s.Flags&code == code && s.Size > 0
}

// LacksCode reports whether the file says where its code is but has none of it: it is
// one of debug information.
func (x *Image) LacksCode() bool {
	lacks := false
	for i := range x.Sections {
		s := &x.Sections[i]
		if s.isCode() && s.Type != elf.SHT_NOBITS {
			return false
		}
		lacks = lacks || s.isCode()
	}
	return lacks
}

// SameCode reports whether o, which has symbols or debug information of the file, says
// that the code is where the file has it: the sections, and the functions that are exported.
// Otherwise the addresses in o are no addresses of the file. A section that the file does
// not have is no difference.
func (x *Image) SameCode(o *Image) bool {
	if len(x.Sections) == 0 {
		return x.sameSegments(o)
	}
	type place struct {
		name       string
		addr, size uint64
	}
	here, named := make(map[place]bool), make(map[string]bool)
	for i := range x.Sections {
		if s := &x.Sections[i]; s.isCode() {
			here[place{s.Name, s.Addr, s.Size}], named[s.Name] = true, true
		}
	}
	for i := range o.Sections {
		if s := &o.Sections[i]; s.isCode() && named[s.Name] && !here[place{s.Name, s.Addr, s.Size}] {
			return false
		}
	}
	return sameExports(x, o)
}

// sameSegments is SameCode by segments. The segments of a separate file have no bytes
// in it, but their addresses.
func (x *Image) sameSegments(o *Image) bool {
	for i := range o.Segments {
		if !o.Segments[i].Exec {
			continue
		}
		same := false
		for k := range x.Segments {
			own := &x.Segments[k]
			same = same || own.Exec && own.Addr == o.Segments[i].Addr && own.MemSize == o.Segments[i].MemSize
		}
		if !same {
			return false
		}
	}
	return true
}

// Whole returns an error if the file ends before its sections do: a part of it is
// missing.
func (x *Image) Whole() error {
	for i := range x.Sections {
		s := &x.Sections[i]
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL && (s.Off > x.size || s.Size > x.size-s.Off) {
			return fmt.Errorf("section %.40q ends after the file: %w", s.Name, io.ErrUnexpectedEOF)
		}
	}
	return nil
}
