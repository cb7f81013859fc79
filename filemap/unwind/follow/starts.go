package follow

import (
	"debug/elf"
	"slices"
	"strings"

	"ustack/filemap/callsite"
	"ustack/filemap/symbol/image"
)

// Starts are where functions of a file are known to begin: by its symbols, and as
// targets of calls.
type Starts struct {
	addrs []uint64
	parts map[uint64]bool // those that only are a part of a function
	all   bool            // there is .symtab
}

// Bounds on Starts.
const (
	maxStarts  = 1 << 19
	maxScanned = 4 << 20 // bytes of code
)

// NewStarts finds where functions begin. scan: also look for calls in the code, if there
// is not too much of it.
func NewStarts(x *image.Image, scan bool) *Starts {
	s := new(Starts)
	for _, kind := range [...]elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		if t := x.Table(kind); t != nil {
			s.symbols(x, t)
			s.all = kind == elf.SHT_SYMTAB
			break // .symtab has those of .dynsym
		}
	}
	if scan {
		s.calls(x)
	}
	slices.Sort(s.addrs)
	s.addrs = slices.Clip(slices.Compact(s.addrs))
	return s
}

// symbols adds the functions of a symbol table.
func (s *Starts) symbols(x *image.Image, t *image.Section) {
	names, err := x.Strings(t)
	if err != nil {
		return
	}
	// What cannot be read adds nothing.
	_ = x.Symbols(t, func(y image.Symbol) {
		const ifunc = elf.SymType(10)
		if y.Type != elf.STT_FUNC && y.Type != ifunc || len(s.addrs) >= maxStarts {
			return
		}
		s.addrs = append(s.addrs, y.Addr)
		if name, ok := names.String(uint64(y.Name)); !ok || strings.Contains(name, ".cold") {
			if s.parts == nil {
				s.parts = make(map[uint64]bool)
			}
			s.parts[y.Addr] = true
		}
	})
}

// calls adds the targets of the calls in the code.
func (s *Starts) calls(x *image.Image) {
	size := uint64(0)
	for i := range x.Segments {
		if x.Segments[i].Exec {
			size += x.Segments[i].FileSize
		}
	}
	if size > maxScanned {
		return
	}
	for i := range x.Segments {
		g := &x.Segments[i]
		if !g.Exec {
			continue
		}
		code, err := x.CodeAt(g.Addr, g.FileSize)
		if err != nil {
			continue
		}
		callsite.Scan(elf.EM_X86_64, code, g.Addr, func(c callsite.Step) {
			if c.Kind == callsite.Call && c.Target != c.End() && x.IsCode(c.Target) && len(s.addrs) < maxStarts {
				s.addrs = append(s.addrs, c.Target)
			}
		})
	}
}

// Begins reports whether a function begins at an address.
func (s *Starts) Begins(addr uint64) bool {
	_, ok := slices.BinarySearch(s.addrs, addr)
	return ok
}

// Complete reports whether all functions are known.
func (s *Starts) Complete() bool { return s.all }

// Before returns where the last function begins that does not begin after an address.
func (s *Starts) Before(addr uint64) (start uint64, ok bool) {
	i, found := slices.BinarySearch(s.addrs, addr)
	if !found {
		i--
	}
	if i < 0 || s.parts[s.addrs[i]] {
		return 0, false
	}
	return s.addrs[i], true
}

// Memory is about how many bytes they need.
func (s *Starts) Memory() int { return 8*len(s.addrs) + 24*len(s.parts) }
