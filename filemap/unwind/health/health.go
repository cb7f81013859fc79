// Package health looks at an ELF file to say how far stacks through it can be
// followed: by the kernel, which knows frame pointers only, and by package
// unwind.
package health

import (
	"debug/elf"

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
	// Version is the version of .sframe.
	Version int
}

// Names says which functions of a file have names.
type Names uint8

const (
	// NoNames: none.
	NoNames Names = iota
	// Exported functions, by .dynsym.
	Exported
	// Packed functions, by .gnu_debugdata, and exported ones.
	Packed
	// All, by .symtab.
	All
)

// String returns the section with the names, "" if there is none.
func (n Names) String() string {
	return [...]string{"", "dynsym", "debugdata", "symtab"}[min(n, All)]
}

// Report describes a file.
type Report struct {
	Machine elf.Machine
	// Wide: of 64 bits.
	Wide    bool
	BuildID elfid.ID
	// Go: the file was linked by Go. Static: it is a program that needs no dynamic
	// linker.
	Go, Static bool
	// Kernels: it is the kernel's own, the vDSO, all of whose functions are exported.
	Kernels bool

	// NoSections: there are no section headers, so neither tables nor names are found,
	// which can be there.
	NoSections bool

	// Code is how many bytes of code there are, without the linker's stubs.
	Code uint64
	// FramePointers is what the code of functions says.
	FramePointers frames.Keep
	// Keeping of Looked functions that call others keep frame pointers.
	Keeping, Looked int

	// EHFrame, DebugFrame, SFrame and GoTable are the tables of the file itself.
	EHFrame, DebugFrame, SFrame, GoTable Table
	// Damaged are the tables that are there and cannot be read, with why.
	Damaged []string
	// Covered is the share of the code that any of these tables is about, from 0
	// to 1; Missing is how many bytes they leave out, and Gap is the largest piece
	// of those.
	Covered float64
	Missing uint64
	Gap     Gap
	// Plain: the unwinder goes by frame pointers where no table is.
	Plain bool
	// Reach is the share of the calls of the file whose callers the unwinder finds,
	// from 0 to 1, estimated by a sample of the functions.
	Reach float64

	// Names are the names in the file itself.
	Names Names
	// DebugInfo: there is .debug_info. DebugLink is the name of the separate
	// debug file, "" if the file names none.
	DebugInfo bool
	DebugLink string
	// Separate is what the separate debug file has; zero if there is none.
	Separate Separate
}

// Gap is code that no table is about.
type Gap struct {
	table.Span
	// Section is the section that it is in, "" if the file has none.
	Section string
}

// Separate is what a separate debug file has.
type Separate struct {
	// Found: there is one.
	Found bool
	// DebugInfo: it has .debug_info.
	DebugInfo bool
	Names     Names
	// DebugFrame is its .debug_frame.
	DebugFrame Table
}

// functions is a table.
type functions interface{ Functions(func(table.Span) bool) }

// Look looks at a program or library with its build ID, which can be zero. debug is its
// separate debug file, nil if there is none.
func Look(x *image.Image, id elfid.ID, debug *image.Image) *Report {
	p := &Report{Machine: x.Machine, Wide: x.Wide(), BuildID: id, Go: x.IsGo(), NoSections: len(x.Sections) == 0}
	p.Static = x.Section(".interp") == nil && x.Section(".dynamic") == nil && !p.NoSections
	p.Names, p.DebugInfo = namesOf(x), x.Has(".debug_info")
	p.DebugLink, _ = x.DebugLink()
	e := examiner{Report: p, image: x, pieces: codeOf(x)}
	p.Code = sizeOf(e.pieces)
	e.tables()
	if debug != nil && debug.Machine == x.Machine {
		e.separate(debug)
	}
	if p.Known() {
		e.code()
	}
	return p
}

func namesOf(x *image.Image) Names {
	switch {
	case x.Table(elf.SHT_SYMTAB) != nil:
		return All
	case x.Section(".gnu_debugdata") != nil:
		return Packed
	case x.Table(elf.SHT_DYNSYM) != nil:
		return Exported
	}
	return NoNames
}

// examiner is a file that is being looked at.
type examiner struct {
	*Report
	image  *image.Image
	pieces []piece // of code
	opened []*table.Table
	all    []table.Span // the code that tables are about
	number int          // of functions in the largest one
	sample []table.Span // of those
	by     *table.Table
}

// tables looks at the tables of the file itself.
func (e *examiner) tables() {
	for _, form := range [...]table.Form{table.EHFrame, table.DebugFrame, table.SFrame} {
		out := [...]*Table{&e.EHFrame, &e.DebugFrame, &e.SFrame}[form]
		t, err := table.Open(e.image, e.image, form)
		if err == nil {
			e.opened = append(e.opened, t)
			out.Indexed, out.Version = t.Indexed, t.Version()
			e.look(t, t, out)
		} else if err != table.ErrNone {
			e.Damaged = append(e.Damaged, err.Error())
		}
	}
	if !e.Go {
		return
	}
	if g, err := table.OpenGo(e.image); err == nil {
		e.GoTable.Indexed = true
		e.look(g, nil, &e.GoTable)
	} else if err != table.ErrNone {
		e.Damaged = append(e.Damaged, err.Error())
	}
}

// look looks at one table.
func (e *examiner) look(f functions, t *table.Table, out *Table) {
	spans := spansOf(f)
	out.Present, out.Functions = true, len(spans)
	if len(spans) > e.number {
		e.number, e.sample, e.by = len(spans), sampled(spans), t
	}
	spans = flat(spans)
	out.Covered = e.share(spans)
	if e.all == nil {
		e.all = spans // they can be many: no copy
	} else {
		e.all = append(e.all, spans...)
	}
}

// sampled are some of many functions.
func sampled(spans []table.Span) (some []table.Span) {
	const about = 3000
	for i := 0; i < len(spans); i += max(len(spans)/about, 1) {
		some = append(some, spans[i])
	}
	return some
}

// separate looks at the separate debug file.
func (e *examiner) separate(debug *image.Image) {
	s := &e.Separate
	s.Found, s.DebugInfo, s.Names = true, debug.Has(".debug_info"), namesOf(debug)
	if t, err := table.Open(debug, e.image, table.DebugFrame); err == nil {
		spans := spansOf(t)
		s.DebugFrame = Table{Present: true, Indexed: t.Indexed, Functions: len(spans)}
		s.DebugFrame.Covered = e.share(flat(spans))
	}
}

// share is how much of the code flat spans are about, from 0 to 1.
func (e *examiner) share(spans []table.Span) float64 {
	return share(e.Code, cover(e.pieces, spans, nil))
}
