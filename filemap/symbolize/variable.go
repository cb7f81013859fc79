package symbolize

import (
	"debug/elf"
	"fmt"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
)

// Variable finds the static variable at an address of a process, nil if nothing
// proves that there is one.
//
// The proof is that the process has all segments of the file in place, moved by one
// and the same distance (the load bias), so that a dynamic linker or exec has
// loaded it; that the address lies in a segment for writing; and that from the
// segment's beginning to the address that file is mapped, or after the file's part
// of it memory without a file, which is the .bss. The variable's size must cover
// the address.
func (s *Symbols) Variable(l filemap.Layout, addr uint64) *symbol.Variable {
	src, at, ok := s.inFile(l, addr)
	if !ok {
		return nil
	}
	before := src.memory()
	v := src.variable(at)
	s.memory += src.memory() - before
	if src.written() {
		s.drop(src)
		return nil
	}
	s.shrink(src)
	return v
}

// Place returns in which file's data an address is, and its address there, as nm has it:
// for variables that have no symbol. The proof is as for Variable, the build ID of the
// file's too.
func (s *Symbols) Place(l filemap.Layout, addr uint64) (f *filemap.File, at uint64, ok bool) {
	src, at, ok := s.inFile(l, addr)
	if !ok {
		return nil, 0, false
	}
	return src.want, at, true
}

// inFile returns the file that an address is in, and its address there.
func (s *Symbols) inFile(l filemap.Layout, addr uint64) (src *source, at uint64, ok bool) {
	near := l.Owner(addr)
	if near == nil {
		return nil, 0, false
	}
	src = s.source(near.File)
	if src.again() {
		s.drop(src)
		src = s.source(near.File)
	}
	if src.bin == nil {
		return nil, 0, false
	}
	bias, ok := loadBias(src.bin.image, l, near, addr)
	return src, addr - bias, ok
}

// Bounds on the cost of a proof: linkers make about ten segments, and split
// mappings are a handful.
const (
	maxLoaded = 64
	maxSplits = 256
)

// loadBias is by how much a file was moved when it was loaded: by the mapping
// near an address in its data. There must be one answer.
func loadBias(x *image.Image, l filemap.Layout, near *filemap.Area, addr uint64) (bias uint64, ok bool) {
	if len(x.Segments) > maxLoaded {
		return 0, false
	}
	for i := range x.Segments {
		s := &x.Segments[i]
		b := near.Start - near.Offset - (s.Addr - s.Off)
		switch {
		case ok && b == bias, x.Fixed() && b != 0:
			continue
		case !loaded(x, l, near.File, b), !inData(x, l, near.File, b, addr):
			continue
		case ok:
			return 0, false
		}
		bias, ok = b, true
	}
	return bias, ok
}

// loaded reports whether all of a file's segments are where a load bias puts
// them.
func loaded(x *image.Image, l filemap.Layout, f *filemap.File, bias uint64) bool {
	for i := range x.Segments {
		s := &x.Segments[i]
		if from := bias + s.Addr; s.FileSize > 0 && !mapped(l, f, s, bias, from, from+s.FileSize-1, false) {
			return false
		}
	}
	return true
}

// inData reports whether an address lies in a segment for writing, of which all
// up to the address is there.
func inData(x *image.Image, l filemap.Layout, f *filemap.File, bias, addr uint64) bool {
	for i := range x.Segments {
		s := &x.Segments[i]
		at := addr - bias - s.Addr
		if !s.Write || at >= s.MemSize {
			continue
		}
		return at < s.FileSize || mapped(l, f, s, bias, bias+s.Addr+s.FileSize, addr, true)
	}
	return false
}

// mapped reports whether all from one address to another, that included, is a
// segment's part of the file; with zeros, memory without a file suffices, too.
func mapped(l filemap.Layout, f *filemap.File, s *image.Segment, bias, from, to uint64, zeros bool) bool {
	if to < from {
		return false
	}
	for range maxSplits {
		a := l.At(from)
		switch {
		case a == nil:
			return false
		case a.File == f && a.Offset-a.Start == s.Off-s.Addr-bias:
		case zeros && a.Anonymous:
		default:
			return false
		}
		if to < a.End {
			return true
		}
		from = a.End
	}
	return false
}

// variable finds the variable that covers a virtual address.
func (s *source) variable(addr uint64) *symbol.Variable {
	if !s.hasVariables {
		s.hasVariables = true
		s.load()
		s.openVariables()
	}
	for _, i := range s.variables {
		if name, start, ok := i.find(addr); ok {
			return &symbol.Variable{Name: s.pretty(name), Offset: addr - start, File: s.want, Source: i.source}
		}
	}
	return nil
}

// openVariables reads the variables of the most complete symbol table there is.
func (s *source) openVariables() {
	x := s.bin.image
	if s.addVariables(x, elf.SHT_SYMTAB, symbol.Symtab) || s.debug != nil && s.addVariables(s.debug.image, elf.SHT_SYMTAB, symbol.DebugFile) {
		return
	}
	s.addVariables(x, elf.SHT_DYNSYM, symbol.Dynsym)
}

func (s *source) addVariables(x *image.Image, kind elf.SectionType, from symbol.Source) bool {
	t := x.Table(kind)
	if t == nil {
		return false
	}
	i, err := newDataIndex(x, t, from)
	if err != nil {
		s.tries = append(s.tries, symbol.Try{Path: s.bin.path, Result: err.Error()})
		return false
	}
	s.variables = append(s.variables, i)
	return true
}

// newDataIndex makes an index of the variables of a table: objects with a size,
// in a section for writing that is mapped as it is, unlike the template of
// thread-local variables.
func newDataIndex(x *image.Image, table *image.Section, source symbol.Source) (*index, error) {
	names, err := x.Strings(table)
	if err != nil {
		return nil, err
	}
	var list []image.Symbol
	err = x.Symbols(table, func(s image.Symbol) {
		in := &x.Sections[s.Section]
		if s.Type != elf.STT_OBJECT || s.Size == 0 || !in.IsData() || s.Addr < in.Addr || s.Addr-in.Addr >= in.Size {
			return
		}
		s.Size = min(s.Size, in.Size-(s.Addr-in.Addr))
		list = append(list, s)
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", table.Name, err)
	}
	return &index{source: source, spans: flatten(unalias(x, near(&names), list, x.IsGo())), names: names}, nil
}
