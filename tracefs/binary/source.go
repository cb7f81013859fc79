package binary

import (
	"bytes"
	"io"
	"slices"

	"ustack/tracefs"
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
	// NoShapes makes every stack stand for itself.
	NoShapes bool
}

// Source reads the records of all CPUs as one trace, ordered by time as the
// kernel orders them for trace_pipe: of equal times the lowest CPU first
// (__find_next_entry in kernel/trace/trace.c). It implements input.Reader.
type Source struct {
	printer *Printer
	heap    []*cpu // the one with the earliest record first
	begun   bool
	pos     int64
	line    int64
	errs    errorList
}

// NewSource merges the buffers of a kernel's CPUs.
func NewSource(k *Kernel, buffers []Buffer, opt Options) *Source {
	s := &Source{printer: NewPrinter(k)}
	s.printer.wantEvents, s.printer.shapes.off = opt.Events, opt.NoShapes
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
	b.Pos, b.Line = s.pos, s.line
	b.Heads = append(b.Heads, s.printer.heads...)
	s.printer.shapes.batch++
	s.begin(b)
	for len(s.heap) > 0 && len(b.Text) < batchSize {
		c := s.heap[0]
		if c.lost {
			s.printer.Lost(b, c.id, c.count)
			c.lost, c.count = false, 0
		}
		s.printer.Print(b, c.id, c.page.Time, c.page.Record)
		if c.next() {
			s.down(0)
		} else {
			s.drop(b)
		}
	}
	b.Lines = int64(bytes.Count(b.Text, []byte{'\n'}))
	s.pos += int64(len(b.Text))
	s.line += b.Lines
	if len(s.heap) > 0 {
		return nil
	}
	s.unglue(b)
	if err := s.errs.err(); err != nil {
		return err
	}
	return io.EOF
}

// begin finds the first record of each CPU. What is lost of those that have
// none is told here.
func (s *Source) begin(b *tracefs.Batch) {
	if s.begun {
		return
	}
	s.begun = true
	s.heap = slices.DeleteFunc(s.heap, func(c *cpu) bool {
		found := c.next()
		if !found && c.lost {
			s.printer.Lost(b, c.id, c.count)
		}
		return !found
	})
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
}

// drop takes a CPU out that has ended.
func (s *Source) drop(b *tracefs.Batch) {
	c := s.heap[0]
	if c.lost { // in what could not be read at its end
		s.printer.Lost(b, c.id, c.count)
	}
	last := len(s.heap) - 1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	if last > 0 {
		s.down(0)
	}
}

func before(a, b *cpu) bool {
	return a.page.Time < b.page.Time || a.page.Time == b.page.Time && a.id < b.id
}

// down puts the heap in order again after its element i has become later.
func (s *Source) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.heap); child++ {
			if before(s.heap[child], s.heap[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		s.heap[i], s.heap[first] = s.heap[first], s.heap[i]
		i = first
	}
}

// unglue takes back that a record follows the last one of all.
func (s *Source) unglue(b *tracefs.Batch) {
	if n := len(b.Records); n > 0 && b.Records[n-1].End == uint32(len(b.Text)) {
		b.Records[n-1].Flags &^= tracefs.Glued
	}
}

// Notes are remarks about how records were printed, each once.
func (s *Source) Notes() []string { return s.printer.notes.list }
