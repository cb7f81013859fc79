package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"ustack/tracefs/text"
)

// instances are the ring buffers in a text of trace-cmd report that has several: each line
// begins with a column that has its name. Each is an input of its own, so the text is read
// once for each of them.
type instances struct {
	width int
	names []string // "" is the top level
}

// maxInstances bounds them, as Record.Source has eight bits.
const maxInstances = 250

// findInstances looks whether a plain file has instances: by its first record, as far as
// that is near the beginning.
func (in *File) findInstances() error {
	const near = 64 << 10
	head := make([]byte, min(near, in.Size-in.start))
	n, err := in.plain.ReadAt(head, in.start)
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading %s at byte %d: %w", in.Name, n, err)
	}
	for line := range bytes.Lines(head[:n]) {
		width, found := text.InstanceColumn(line)
		if !found {
			continue
		}
		if width == 0 {
			return nil
		}
		in.instances = &instances{width: width}
		return in.instances.find(in.section())
	}
	return nil
}

// section returns the whole of a plain file.
func (in *File) section() *io.SectionReader {
	return io.NewSectionReader(in.plain, in.start, in.Size-in.start)
}

// find finds the names, in the order in which they come.
func (is *instances) find(r io.Reader) error {
	f := newInstanceReader(r, is.width, "", false)
	known := make(map[string]bool)
	for {
		line, err := f.line()
		if name, ok := text.InstanceOf(line, is.width); ok && !known[name] {
			if len(is.names) == maxInstances {
				return fmt.Errorf("more than %d instances of trace-cmd report", maxInstances)
			}
			known[name] = true
			is.names = append(is.names, name)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("looking for the instances: %w", err)
		}
	}
}

// instanceSources returns a source for each instance.
func (in *File) instanceSources(opt Options) (list []source) {
	for i, name := range in.instances.names {
		r := io.Reader(in.section())
		counted := &counter{r: r}
		if i == 0 { // the progress
			counted, in.counted.r = in.counted, r
		}
		one := &File{Name: fmt.Sprintf("%s (instance %q)", in.Name, name), r: newInstanceReader(counted, in.instances.width, name, i == 0)}
		one.counted, one.Done = counted, counted.count
		s := newSource(one, opt.Events)
		if !opt.NoTemplates {
			s.scan.UseTemplates()
		}
		list = append(list, s)
	}
	return list
}

// instanceReader reads the lines of one instance, without the column of instances. A line
// that is not the first one of a record belongs to the record before it; but "CPU:0 …",
// which says that records were lost, to the one after it.
type instanceReader struct {
	in      *bufio.Reader
	width   int
	name    string
	ours    bool   // the last record is
	partial bool   // inside a line that is longer than the buffer
	before  []byte // what belongs to the next record
	out     []byte // to be read
	err     error
}

// longestLine is how much of a line is looked at at once.
const longestLine = 64 << 10

// newInstanceReader reads an instance. What is before all records goes to the first one.
func newInstanceReader(r io.Reader, width int, name string, first bool) *instanceReader {
	return &instanceReader{in: bufio.NewReaderSize(r, longestLine), width: width, name: name, ours: first}
}

// line returns the next line, or a piece of a longer one. It is valid until the next call.
func (r *instanceReader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return line, err
}

// Read implements io.Reader.
func (r *instanceReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var line []byte
		line, r.err = r.line()
		r.take(line)
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// take decides about a line, or a piece of it.
func (r *instanceReader) take(line []byte) {
	first := !r.partial
	r.partial = len(line) > 0 && line[len(line)-1] != '\n'
	if first && bytes.HasPrefix(line, []byte("CPU:")) && len(r.before) < longestLine {
		r.before = append(r.before, line...)
		return
	}
	if name, ok := text.InstanceOf(line, r.width); ok && first {
		if r.ours = name == r.name; r.ours {
			r.out = append(r.before, line[r.width:]...)
			r.before = nil
			return
		}
		r.before = r.before[:0]
	}
	if !r.ours {
		r.before = r.before[:0] // it is of the same record as this line
		return
	}
	r.out = append(r.before, line...)
	r.before = nil
}
