package table

import (
	"errors"
	"fmt"

	"ustack/filemap/symbol/image"
)

// Form is the form of a table.
type Form uint8

const (
	// EHFrame is .eh_frame, DebugFrame .debug_frame, SFrame .sframe.
	EHFrame Form = iota
	DebugFrame
	SFrame
)

// String returns the name of the section.
func (f Form) String() string { return [...]string{".eh_frame", ".debug_frame", ".sframe"}[f] }

// ErrNone is the error of a file without a table, or of a machine that is not
// known.
var ErrNone = errors.New("no unwind information")

// Span is the code that a row of a table is about: [Start, End) is the function
// or part of one.
type Span struct{ Start, End uint64 }

// Table is one table of a file. It is not for several goroutines at once.
type Table struct {
	Form Form
	// Indexed: the linker has written an index (.eh_frame_hdr), or the table is
	// sorted.
	Indexed bool

	machine *machine
	frames  frames
	index   index
	simple  *simple // of .sframe
	rules   set
	scratch Rules
	runner  runner
	state   state
}

// Open opens the table of a form. code is the program or library that the table
// is about; x, the file that has it, can be its separate debug file.
func Open(x, code *image.Image, form Form) (*Table, error) {
	t := &Table{Form: form, machine: machineOf(x.Machine)}
	s := x.Section(form.String())
	if t.machine == nil || x.Order.Uint16([]byte{1, 0}) != 1 || s == nil || !x.Has(s.Name) {
		return nil, ErrNone
	}
	d, err := x.Data(s)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Name, err)
	}
	if form == SFrame {
		t.simple, err = openSimple(d, s.Addr, t.machine)
		t.Indexed = err == nil && t.simple.sorted
		return t, err
	}
	t.frames = frames{blocks: newBlocks(d), debug: form == DebugFrame, machine: t.machine}
	if form == EHFrame {
		t.frames.addr = s.Addr
		if h := newHeader(x, s.Addr); h != nil {
			t.index, t.Indexed = h, true
			return t, nil
		}
	}
	l := t.frames.scan(code)
	if len(l.entries) == 0 {
		return nil, ErrNone
	}
	t.index = l
	return t, nil
}

// Memory returns about how many bytes are kept.
func (t *Table) Memory() int {
	n := 1024 + t.frames.blocks.memory() + 900*len(t.frames.commons) + t.rules.bytes
	if t.index != nil {
		n += t.index.memory()
	}
	if t.simple != nil {
		n += t.simple.memory()
	}
	return n
}

// Find returns what holds at an address, nil if the table says nothing about
// it. It is an error if it is malformed.
func (t *Table) Find(addr uint64) (*Rules, error) {
	if t.simple != nil {
		return t.simple.find(addr, t)
	}
	r, _, err := t.locate(addr)
	return r, err
}

// Span returns the code around an address that one entry of the table is about.
func (t *Table) Span(addr uint64) (Span, bool) {
	if t.simple != nil {
		f, ok := t.simple.function(addr)
		return Span{f.start, f.start + f.size}, ok
	}
	e, ok := t.fde(addr)
	if !ok {
		return Span{}, false
	}
	_, start, size, ok := t.frames.span(&e)
	return Span{start, start + size}, ok && addr >= start && addr-start < size
}

// Next returns where the first entry begins that begins after an address, by the index
// that the linker has written.
func (t *Table) Next(addr uint64) (start uint64, ok bool) {
	h, ok := t.index.(*header)
	if !ok || 8*h.after(addr) >= len(h.table) {
		return 0, false
	}
	return h.number(2 * h.after(addr)), true
}

// fde returns the entry that can hold an address.
func (t *Table) fde(addr uint64) (entry, bool) {
	off, ok := t.index.find(addr)
	if !ok {
		return entry{}, false
	}
	e, ok := t.frames.entry(off)
	return e, ok && len(e.b) > 0
}

// locate finds and runs the FDE of an address.
func (t *Table) locate(addr uint64) (*Rules, Span, error) {
	e, ok := t.fde(addr)
	if !ok {
		return nil, Span{}, nil
	}
	c, start, size, ok := t.frames.span(&e)
	if !ok {
		return nil, Span{}, errDamaged
	}
	if addr < start || addr-start >= size {
		return nil, Span{}, nil
	}
	if c.initial == nil {
		return nil, Span{}, errDamaged
	}
	t.state = *c.initial
	t.runner = runner{common: c, machine: t.machine, state: &t.state, loc: start, until: addr, stack: t.runner.stack[:0]}
	if !t.runner.run(e.reader) {
		return nil, Span{}, errDamaged
	}
	return t.intern(c), Span{start, start + size}, nil
}

// maxRules bounds how many bytes of different rules are kept. Rules that have
// been handed out stay valid.
const maxRules = 2 << 20

func (t *Table) intern(c *common) *Rules {
	t.frames.compile(c, &t.state, &t.scratch)
	return t.own()
}

// own interns the rules in scratch.
func (t *Table) own() *Rules {
	if t.rules.bytes > maxRules {
		t.rules = set{}
	}
	return t.rules.intern(&t.scratch)
}

// maxRows bounds the rows of a function that Rows calls f for.
const maxRows = 1 << 13

// Rows calls f for all rows of the code around an address, in order: the row
// holds from addr on. ok is false if there are none, or they are malformed; f
// may have been called then for those before.
func (t *Table) Rows(addr uint64, f func(addr uint64, r *Rules)) (span Span, ok bool) {
	if t.simple != nil {
		return Span{}, false
	}
	e, ok := t.fde(addr)
	if !ok {
		return Span{}, false
	}
	c, start, size, ok := t.frames.span(&e)
	span = Span{start, start + size}
	if !ok || addr < start || addr-start >= size || c.initial == nil {
		return span, false
	}
	state, rows := *c.initial, 0
	run := runner{common: c, machine: t.machine, state: &state, loc: start, until: span.End - 1}
	give := func(loc uint64) {
		t.frames.compile(c, &state, &t.scratch)
		f(loc, t.own())
	}
	run.row = func(loc uint64) {
		if rows++; rows > maxRows {
			run.done, run.back = true, true
			return
		}
		give(loc)
	}
	if ok = run.run(e.reader); ok {
		give(run.loc)
	}
	return span, ok
}
