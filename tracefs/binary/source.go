package binary

import (
	"bytes"
	"io"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// batchSize is how much text a batch has, a record more or less. It stays in
// the second level cache while it goes through the pipe.
const batchSize = 128 << 10

// Buffer is the sub-buffers of one CPU.
type Buffer struct {
	CPU   int32
	Pages Pages
}

// Options are how a Source reads.
type Options struct {
	// Events asks for Records of events too.
	Events bool
	// NoTemplates makes every stack stand for itself.
	NoTemplates bool
	// NoText leaves out the text of records that can be had decoded
	// (tracefs.NoText): for consumers that need the calls and show no record.
	NoText bool
	// BareStacks leaves out the text of stacks that the kernel took at the event before
	// them, where a Foreign prints them: for consumers that show them at the events only.
	BareStacks bool
	// Spare leaves out stacks that the kernel took at the event before them
	// (tracefs.StackLeft): of wakeups, and of returns from calls of the futex family
	// whose entry has gone out with a stack.
	Spare bool
	// Before and After are whole lines, escaped, which a Source gives as notes before its
	// first record and after its last one.
	Before, After []byte
}

// Source reads the records of all CPUs as one trace, ordered by time as the
// kernel orders them for trace_pipe: of equal times the lowest CPU first
// (__find_next_entry in kernel/trace/trace.c). It implements input.Reader.
type Source struct {
	printer *Printer
	heap    cpuHeap
	begun   bool
	place   place
	errs    errorList
	before  []byte // see Options
	after   []byte
}

// place is how far a trace has been printed, after the head that its text has.
type place struct {
	pos, line int64
}

// begin begins a batch.
func (p *place) begin(b *tracefs.Batch, printer *Printer) {
	if p.line == 0 {
		p.pos, p.line = int64(len(text.Head)), 1
	}
	b.Pos, b.Line, b.Escaped = p.pos, p.line, true
	b.Heads = append(b.Heads, printer.heads...)
	printer.templates.batch++
}

// end ends it.
func (p *place) end(b *tracefs.Batch) {
	b.Lines += int64(bytes.Count(b.Text, []byte{'\n'}))
	p.pos += int64(len(b.Text))
	p.line += b.Lines
}

// NewSource merges the buffers of a kernel's CPUs.
func NewSource(k *Kernel, buffers []Buffer, opt Options) *Source {
	s := &Source{printer: newPrinter(k), before: opt.Before, after: opt.After}
	s.printer.want(opt)
	layout := k.Layout
	if k.Subbuf > 0 {
		layout.Size = k.Subbuf
	}
	for _, b := range buffers {
		s.heap = append(s.heap, &cpu{id: b.CPU, pages: b.Pages, layout: &layout, errs: &s.errs})
	}
	return s
}

// Next implements input.Reader. Errors of single sub-buffers come with the
// last batch: the rest is read all the same.
func (s *Source) Next(b *tracefs.Batch) error {
	b.Reset()
	s.place.begin(b, s.printer)
	s.begin(b)
	for len(s.heap) > 0 && !full(b, batchSize) {
		c := s.heap[0]
		if c.lost {
			s.printer.Lost(b, c.id, c.count)
			c.lost, c.count = false, 0
		}
		s.printer.Print(b, c.id, c.page.Time, c.page.Record)
		if c.next() {
			s.heap.down(0)
		} else {
			s.drop(b)
		}
	}
	if len(s.heap) > 0 {
		s.place.end(b)
		return nil
	}
	addNotes(b, s.after)
	s.after = nil
	s.place.end(b)
	if err := s.errs.err(); err != nil {
		return err
	}
	return io.EOF
}

// full reports whether a batch has so much text, or as many records or frames as
// such a text has.
func full(b *tracefs.Batch, size int) bool {
	const (
		perRecord = 128 // most have more
		perFrame  = text.PlainLine
	)
	return len(b.Text) >= size || len(b.Records) >= size/perRecord || len(b.Frames) >= size/perFrame
}

// begin finds the first record of each CPU. It reports the loss of CPUs that have
// none.
func (s *Source) begin(b *tracefs.Batch) {
	if s.begun {
		return
	}
	s.begun = true
	addNotes(b, s.before)
	s.heap = slices.DeleteFunc(s.heap, func(c *cpu) bool {
		found := c.next()
		if !found && c.lost {
			s.printer.Lost(b, c.id, c.count)
		}
		return !found
	})
	s.heap.order()
}

// drop takes a CPU out that has ended.
func (s *Source) drop(b *tracefs.Batch) {
	c := s.heap[0]
	if c.lost { // in what could not be read at its end
		s.printer.Lost(b, c.id, c.count)
	}
	s.heap.pop()
}

// Notes are remarks about how records were printed, each once.
func (s *Source) Notes() []string { return s.printer.notes.list }

// Clock returns the name of the trace clock, "" if unknown.
func (s *Source) Clock() string { return s.printer.k.Clock }

// addNotes adds lines as notes.
func addNotes(b *tracefs.Batch, lines []byte) {
	for line := range bytes.Lines(lines) {
		at := uint32(len(b.Text))
		b.Text = append(b.Text, line...)
		b.Records = append(b.Records, tracefs.Record{Kind: tracefs.KindNote, CPU: tracefs.NoCPU, TID: tracefs.NoTID, Off: at, Body: at, End: uint32(len(b.Text))})
	}
}
