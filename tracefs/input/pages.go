package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/perfdata"
	"ustack/tracefs/stackmap"
	"ustack/tracefs/tracedat"
)

// pages are the ring buffers of a binary trace: a directory with rawN.bin has one
// instance, a trace.dat can have several.
type pages struct {
	instances int
	source    func(instance int, opt binary.Options, read func(int)) *binary.Source
	// clock returns the name of an instance's trace clock, "" if unknown.
	clock func(instance int) string
	// processes returns the mappings of processes that a trace.dat has.
	processes func() ([]tracedat.Process, error)
	// err is about parts of the file that could not be read; the rest is
	// read first.
	err  error
	done atomic.Int64
}

// openPages opens a directory with the sub-buffers of each CPU.
func openPages(name string) (*File, error) {
	d, err := binary.OpenDir(name)
	if err != nil {
		return nil, fmt.Errorf("opening a trace: %w", err)
	}
	in := &File{Name: name, Size: d.Size, close: []func() error{d.Close}}
	in.r = errReader{fmt.Errorf("reading %s: it is a directory", name)}
	in.setPages(&pages{instances: 1, source: func(_ int, opt binary.Options, read func(int)) *binary.Source {
		return d.Source(opt, read)
	}, clock: func(int) string { return d.Kernel.Clock }})
	in.again = func() (*File, error) { return openPages(name) }
	return in, nil
}

// errReader fails each read: the input is not text.
type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// openDat opens a trace.dat, which must be a file: it is not read in order.
func (in *File) openDat(file io.Reader) error {
	r, size, err := in.readerAt(file, int64(len(tracedat.Magic[:4])))
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("reading %s: it is a trace.dat, which cannot be read from a pipe: give it as a file", in.Name)
	}
	dat, err := tracedat.Open(r, size)
	if dat == nil {
		return fmt.Errorf("reading %s: %w", in.Name, err)
	}
	in.setPages(&pages{instances: len(dat.Buffers), processes: dat.Processes, err: err,
		clock: func(i int) string { return dat.Clock(&dat.Buffers[i]) },
		source: func(i int, opt binary.Options, read func(int)) *binary.Source {
			return dat.Source(&dat.Buffers[i], opt, read)
		}})
	in.Size = 0
	for i := range dat.Buffers {
		in.Size += dat.Buffers[i].DataSize()
	}
	return nil
}

// readerAt returns a plain file to be read in any order, and its size; nil if it is none.
// So many bytes of it were looked at.
func (in *File) readerAt(file io.Reader, looked int64) (io.ReaderAt, int64, error) {
	switch f := file.(type) {
	case *io.SectionReader: // standard input, read again
		if under, start, size := f.Outer(); under != nil {
			of, ok := under.(*os.File)
			if !ok {
				break
			}
			info, err := of.Stat()
			if err != nil {
				return nil, 0, fmt.Errorf("looking at %s: %w", in.Name, err)
			}
			return f, min(info.Size()-start, size), nil
		}
	case *os.File:
		if in.Size == 0 {
			break
		}
		start, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, 0, fmt.Errorf("reading %s: %w", in.Name, err)
		}
		start -= looked
		return io.NewSectionReader(f, start, in.Size-start), in.Size - start, nil
	}
	return nil, 0, nil
}

func (in *File) setPages(p *pages) {
	in.pages = p
	in.Done = p.done.Load
}

// binarySource reads one ring buffer of a binary trace.
type binarySource struct {
	*binary.Source
	in  *File
	err error // reported at the end
}

func (s *binarySource) name() string { return s.in.Name }

// Notes are remarks about how records were printed, and of the writer of a report.
func (s *binarySource) Notes() []string {
	notes := s.Source.Notes()
	if s.in.report != nil {
		notes = append(notes, s.in.report.Notes()...)
	}
	return notes
}

// savedID returns the identifier of the log that a report of pages has, "" for all others.
func (s *binarySource) savedID() string {
	if s.in.report == nil {
		return ""
	}
	return s.in.report.ID()
}

// Next implements Reader.
func (s *binarySource) Next(b *tracefs.Batch) error {
	err := s.Source.Next(b)
	if err == nil {
		return nil
	}
	if err == io.EOF {
		err = nil
	}
	if err = errors.Join(s.err, err); err != nil {
		return fmt.Errorf("%s: %w", s.in.Name, err)
	}
	return io.EOF
}

// sources returns what the file has to be read of, one for each ring buffer.
func (in *File) sources(opt Options) []source {
	if perfdata.Supported && in.perf != nil {
		return []source{newPerfSource(in, opt)}
	}
	if in.instances != nil {
		return in.instanceSources(opt)
	}
	if stackmap.Supported && in.stacks != nil {
		in.stacks.Count(opt.Counts)
		return []source{&mapSource{newSource(in, opt.Events)}}
	}
	if in.pages == nil {
		s := newSource(in, opt.Events)
		if !opt.NoTemplates {
			s.scan.UseTemplates()
		}
		s.Pause = opt.Pause
		return []source{s}
	}
	var out []source
	for i := range in.pages.instances {
		s := &binarySource{in: in, Source: in.pages.source(i, binary.Options{Events: opt.Events, NoTemplates: opt.NoTemplates, NoText: opt.NoText},
			func(n int) { in.pages.done.Add(int64(n)) })}
		if i == 0 {
			s.err = in.pages.err
		}
		out = append(out, s)
	}
	return out
}
