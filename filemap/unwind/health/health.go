// Package health looks at an ELF file to say how far stacks through it can be
// followed: by the kernel, which knows frame pointers only, and by package
// unwind.
package health

import (
	"debug/elf"
	"fmt"
	"io"
	"slices"

	"ustack/filemap/elfid"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/frames"
	"ustack/filemap/unwind/table"
)

// Table is what a file has of one kind of table.
type Table struct {
	// Present: there is one that can be read. Indexed: with an index by
	// address, or sorted.
	Present, Indexed bool
	// Functions is how many pieces of code it is about.
	Functions int
	// Covered is the share of the file's code that it is about, from 0 to 1.
	Covered float64
	// Missing is how many bytes of code it says nothing about.
	Missing uint64
	// Version is that of .sframe.
	Version int
}

// Report is what is known about a file.
type Report struct {
	Machine elf.Machine
	BuildID elfid.ID
	// Go: the file was linked by Go.
	Go            bool
	FramePointers frames.Keep
	// Keeping of Looked functions that call others keep frame pointers.
	Keeping, Looked int
	EHFrame         Table
	DebugFrame      Table
	SFrame          Table
	GoTable         Table
	// Symbols names the best table of functions' names: "symtab",
	// "debugdata" (.gnu_debugdata), "dynsym" or "".
	Symbols string
	// DebugInfo: there is .debug_info. DebugLink is the name of the separate
	// debug file, "" if the file names none.
	DebugInfo bool
	DebugLink string
	// Separate: the separate debug file was given and has .debug_frame.
	Separate Table
}

// Open looks at a program or library of so many bytes. debug is its separate
// debug file, nil if there is none.
func Open(r io.ReaderAt, size int64, debug *image.Image) (*Report, error) {
	x, err := image.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	p := &Report{Machine: x.Machine, Go: x.IsGo()}
	if p.BuildID, err = elfid.Read(r); err != nil {
		return nil, fmt.Errorf("reading the build ID: %w", err)
	}
	p.symbols(x)
	all := codeOf(x)
	var functions []table.Span
	look := func(t interface{ Functions(func(table.Span) bool) }, out *Table) {
		out.Present = true
		spans := spansOf(t)
		out.Functions = len(spans)
		out.Covered, out.Missing = covered(all, spans)
		if len(spans) > len(functions) {
			functions = spans
		}
	}
	for form, out := range map[table.Form]*Table{table.EHFrame: &p.EHFrame, table.DebugFrame: &p.DebugFrame, table.SFrame: &p.SFrame} {
		if t, err := table.Open(x, x, form); err == nil {
			look(t, out)
			out.Indexed, out.Version = t.Indexed, t.Version()
		}
	}
	if g, err := table.OpenGo(x); err == nil {
		look(g, &p.GoTable)
		p.GoTable.Indexed = true
	}
	if debug != nil && debug.Machine == x.Machine {
		if t, err := table.Open(debug, x, table.DebugFrame); err == nil {
			look(t, &p.Separate)
		}
	}
	p.Keeping, p.Looked = frames.Count(x, functions)
	p.FramePointers = frames.Judge(p.Keeping, p.Looked)
	return p, nil
}

// symbols finds out which names there are.
func (p *Report) symbols(x *image.Image) {
	switch {
	case x.Table(elf.SHT_SYMTAB) != nil:
		p.Symbols = "symtab"
	case x.Section(".gnu_debugdata") != nil:
		p.Symbols = "debugdata"
	case x.Table(elf.SHT_DYNSYM) != nil:
		p.Symbols = "dynsym"
	}
	p.DebugInfo = x.Has(".debug_info")
	p.DebugLink, _ = x.DebugLink()
}

// codeOf are the sections of code, or, in a file without sections, its segments.
// Stubs of the linker are left out: no thread waits there.
func codeOf(x *image.Image) (all []table.Span) {
	for i := range x.Sections {
		s := &x.Sections[i]
		stub := s.Name == ".init" || s.Name == ".fini" || len(s.Name) >= 4 && s.Name[:4] == ".plt"
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Type != elf.SHT_NOBITS && !stub && s.Addr+s.Size > s.Addr {
			all = append(all, table.Span{Start: s.Addr, End: s.Addr + s.Size})
		}
	}
	for i := range x.Segments {
		if s := &x.Segments[i]; len(x.Sections) == 0 && s.Exec && s.Addr+s.FileSize > s.Addr {
			all = append(all, table.Span{Start: s.Addr, End: s.Addr + s.FileSize})
		}
	}
	return all
}

// maxFunctions bounds the functions of a table that are looked at.
const maxFunctions = 4 << 20

func spansOf(t interface{ Functions(func(table.Span) bool) }) (spans []table.Span) {
	t.Functions(func(s table.Span) bool {
		spans = append(spans, s)
		return len(spans) < maxFunctions
	})
	slices.SortFunc(spans, func(a, b table.Span) int {
		if a.Start < b.Start {
			return -1
		} else if a.Start > b.Start {
			return 1
		}
		return 0
	})
	return spans
}

// covered is the share of code that functions, in order of address, take up, and
// how many bytes they leave out.
// Padding up to 15 bytes between two functions belongs to the first.
func covered(code, functions []table.Span) (share float64, missing uint64) {
	const padding = 15
	total, has := uint64(0), uint64(0)
	for _, c := range code {
		total += c.End - c.Start
		done := c.Start
		for _, f := range functions {
			from, to := max(f.Start, done), min(f.End, c.End)
			if f.Start > done && f.Start-done <= padding && f.Start <= c.End && done > c.Start {
				from = done
			}
			if from < to {
				has += to - from
				done = to
			}
		}
	}
	if total == 0 {
		return 0, 0
	}
	return float64(has) / float64(total), total - has
}
