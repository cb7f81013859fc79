// Package examine looks at an ELF file to say how far stacks through it can be followed
// (package health).
package examine

import (
	"debug/elf"

	"ustack/filemap/elfid"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/health"
	"ustack/filemap/unwind/table"
)

// functions is a table.
type functions interface{ Functions(func(table.Span) bool) }

// Look looks at a program or library with its build ID, which can be zero. debug is its
// separate debug file, nil if there is none.
func Look(x *image.Image, id elfid.ID, debug *image.Image) *health.Report {
	p := &health.Report{Machine: x.Machine, Wide: x.Wide(), BuildID: id, Go: x.IsGo(), NoSections: len(x.Sections) == 0}
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

func namesOf(x *image.Image) health.Names {
	switch {
	case x.Table(elf.SHT_SYMTAB) != nil:
		return health.All
	case x.Section(".gnu_debugdata") != nil:
		return health.Packed
	case x.Table(elf.SHT_DYNSYM) != nil:
		return health.Exported
	}
	return health.NoNames
}

// examiner is a file that is being looked at.
type examiner struct {
	*health.Report
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
		out := [...]*health.Table{&e.EHFrame, &e.DebugFrame, &e.SFrame}[form]
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
func (e *examiner) look(f functions, t *table.Table, out *health.Table) {
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
		s.DebugFrame = health.Table{Present: true, Indexed: t.Indexed, Functions: len(spans)}
		s.DebugFrame.Covered = e.share(flat(spans))
	}
}

// share is how much of the code flat spans are about, from 0 to 1.
func (e *examiner) share(spans []table.Span) float64 {
	return share(e.Code, cover(e.pieces, spans, nil))
}
