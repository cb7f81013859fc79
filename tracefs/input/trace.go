package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/perfdata"
	"ustack/tracefs/stackmap"
	"ustack/tracefs/text"
	"ustack/tracefs/tracedat"
)

// Options are how inputs are read.
type Options struct {
	// Events asks for Records of events too.
	Events bool
	// NoTemplates makes every stack stand for itself.
	NoTemplates bool
	// NoText leaves out text that is not shown (tracefs.NoText), where the input
	// is binary, and one.
	NoText bool
	// Stitched leaves out the text of stacks that are shown at their events only, where the
	// input is what perf has recorded, and one. It asks for events, too.
	Stitched bool
	// Escape makes text escaped that is not (tracefs.Batch.Escaped), for outputs
	// that say that they are. It asks for events, too.
	Escape bool
	// Counts are how often the stacks of a BPF map were counted, nil for none.
	Counts stackmap.Counts
	// Unwind finds the frames of a stack that perf has copied, nil to leave them out.
	Unwind func(*perfdata.Copy) []tracefs.Frame
	// Pause is how long a pipe may give nothing before a batch says so.
	Pause time.Duration
}

// Trace is one trace made of one or several inputs.
type Trace struct {
	Reader
	files   []*File
	sources []source
	opt     Options
}

// OpenAll opens the inputs of a trace; "-" is stdin.
func OpenAll(names []string, stdin io.Reader, opt Options) (*Trace, error) {
	const most = 255 // Record.Source has eight bits
	if len(names) > most {
		return nil, fmt.Errorf("reading %d inputs as one trace: %d is the most", len(names), most)
	}
	var files []*File
	for _, name := range names {
		f, err := Open(name, stdin)
		if err != nil {
			return nil, errors.Join(err, closeAll(files))
		}
		files = append(files, f)
	}
	if err := oneClock(files); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	t := NewTrace(files, opt)
	if n := t.Sources(); n > most {
		return nil, errors.Join(fmt.Errorf("reading %d ring buffers as one trace: %d is the most", n, most), t.Close())
	}
	return t, nil
}

// NewTrace makes one trace of opened inputs, which it closes.
func NewTrace(files []*File, opt Options) *Trace {
	t := &Trace{files: files, opt: opt}
	many := len(files) > 1
	for _, f := range files {
		many = many || f.pages != nil && f.pages.instances > 1 || f.instances != nil && len(f.instances.names) > 1
	}
	if many { // merging needs every record, and takes stacks apart
		opt = Options{Events: true, NoTemplates: true, Escape: opt.Escape, Counts: opt.Counts, Unwind: opt.Unwind}
	}
	opt.Events = opt.Events || opt.Escape || opt.Stitched
	for _, f := range files {
		t.sources = append(t.sources, f.sources(opt)...)
	}
	if len(t.sources) > 1 {
		m := newMerge(t.sources)
		m.escape = opt.Escape
		t.Reader = m
		return t
	}
	t.Reader = t.sources[0]
	if s, ok := t.Reader.(*Source); ok && opt.Escape && !s.in.isEscaped() {
		t.Reader = &escaping{src: s}
	}
	return t
}

// Sources returns the number of ring buffers that the trace is of: the inputs,
// but that one trace.dat can have several. Record.Source counts them.
func (t *Trace) Sources() int { return len(t.sources) }

// Processes returns the mappings of processes that the inputs have: a trace.dat
// of trace-cmd record --proc-map does. If some cannot be read, the error names
// them, and the rest is returned.
func (t *Trace) Processes() (all []tracedat.Process, err error) {
	var errs []error
	for _, f := range t.files {
		if f.pages == nil || f.pages.processes == nil {
			continue
		}
		processes, err := f.pages.processes()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name, err))
		}
		all = append(all, processes...)
	}
	return all, errors.Join(errs...)
}

// HasProcesses reports whether an input has mappings of processes.
func (t *Trace) HasProcesses() bool {
	processes, _ := t.Processes() // reading the trace reports the error
	return len(processes) > 0
}

// noted is a source that has remarks at its end, and timed one that knows its clock.
type (
	noted interface{ Notes() []string }
	timed interface{ Clock() string }
)

// Notes are remarks about how records were printed, for when all are read.
func (t *Trace) Notes() []string {
	var out []string
	for _, s := range t.sources {
		if b, ok := s.(noted); ok {
			for _, note := range b.Notes() {
				out = append(out, s.name()+": "+note)
			}
		}
	}
	return out
}

// Clock returns the name of the trace clock, "" if the trace does not have it: text
// does not.
func (t *Trace) Clock() string {
	clock := ""
	for i, s := range t.sources {
		b, ok := s.(timed)
		if !ok || i > 0 && b.Clock() != clock {
			return ""
		}
		clock = b.Clock()
	}
	return clock
}

// SavedID returns the identifier of the address spaces that all inputs were saved
// with, "" if they have none in common, or an input is a pipe and was not read yet.
func (t *Trace) SavedID() string {
	common := ""
	for i, s := range t.sources {
		own, ok := s.(interface{ savedID() string })
		if !ok {
			return ""
		}
		id := own.savedID()
		if i > 0 && id != common {
			return ""
		}
		common = id
	}
	return common
}

// Joined reports whether another file has begun in an input so far (tracefs.Joined). It
// is set before the first such record is given. It may be called by any goroutine.
func (t *Trace) Joined() bool {
	for _, s := range t.sources {
		if own, ok := s.(*Source); ok && own.joined.Load() {
			return true
		}
	}
	return false
}

func (s *Source) savedID() string {
	if id := s.saved.Load(); id != nil {
		return *id
	}
	return text.SavedID(s.in.head())
}

// Again returns how to read the trace a second time, nil if an input can be
// read only once.
func (t *Trace) Again() func(Options) (*Trace, error) {
	for _, f := range t.files {
		if f.again == nil {
			return nil
		}
	}
	return func(opt Options) (*Trace, error) {
		var files []*File
		for _, f := range t.files {
			again, err := f.again()
			if err != nil {
				return nil, errors.Join(err, closeAll(files))
			}
			files = append(files, again)
		}
		if err := oneClock(files); err != nil {
			return nil, errors.Join(err, closeAll(files))
		}
		return NewTrace(files, opt), nil
	}
}

// Progress returns how far the reading is, nil if unknown.
func (t *Trace) Progress() func() (read, size int64) {
	for _, f := range t.files {
		if f.Size == 0 {
			return nil
		}
	}
	return func() (read, size int64) {
		for _, f := range t.files {
			read += f.Done()
			size += f.Size
		}
		return read, size
	}
}

// Close closes all inputs.
func (t *Trace) Close() error { return closeAll(t.files) }

func closeAll(files []*File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Firsts is the first mapping event of each identifier in a whole trace. It
// reads the trace a second time when it is asked for the first time.
type Firsts struct {
	again func(Options) (*Trace, error)
	once  sync.Once
	found map[tracefs.Identifier]first
}

// first is the mapping event, and how many places before it lack records.
type first struct {
	tracefs.MappingEvent
	losses int64
}

// maxFirsts bounds the memory; a hostile trace has no end of identifiers.
const maxFirsts = 1 << 16

// NewFirsts returns the mapping events of the trace that again opens.
func NewFirsts(again func(Options) (*Trace, error)) *Firsts { return &Firsts{again: again} }

// Find returns the first mapping event of an identifier, and how many records
// before it report a loss (tracefs.KindLost, KindGap).
func (fs *Firsts) Find(id tracefs.Identifier) (a tracefs.MappingEvent, losses int64, ok bool) {
	fs.once.Do(fs.read)
	f, ok := fs.found[id]
	return f.MappingEvent, f.losses, ok
}

// read collects mapping events. An error ends it: the first reading of the trace
// meets the same one and reports it.
func (fs *Firsts) read() {
	fs.found = make(map[tracefs.Identifier]first)
	t, err := fs.again(Options{NoTemplates: true})
	if err != nil {
		return
	}
	defer t.Close()
	var b tracefs.Batch
	losses := int64(0)
	for {
		err := t.Next(&b)
		for i := range b.Records {
			switch rec := &b.Records[i]; rec.Kind {
			case tracefs.KindLost, tracefs.KindGap:
				losses++
			case tracefs.KindMappingEvent:
				a := b.MappingEvent(rec)
				if _, seen := fs.found[a.ID]; a.Bad == "" && !seen && len(fs.found) < maxFirsts {
					a.Path, a.BuildID = bytes.Clone(a.Path), bytes.Clone(a.BuildID)
					fs.found[a.ID] = first{*a, losses}
				}
			}
		}
		if err != nil {
			return
		}
	}
}
