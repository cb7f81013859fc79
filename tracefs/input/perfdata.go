package input

import (
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/tracefs/binary"
	"ustack/tracefs/perfdata"
	"ustack/tracefs/stackmap"
)

// openPerf opens a perf.data. What is not a plain file, all of which follows in r, is kept
// in a temporary file: its mappings are read before its samples.
func (in *File) openPerf(r io.Reader, file io.Reader) error {
	if !perfdata.Supported {
		return fmt.Errorf("reading %s: it is a perf.data, whose reader this build for devices (go build -tags device) leaves out; read it on another machine", in.Name)
	}
	at, size, err := in.readerAt(file, int64(perfMagic))
	if err != nil {
		return err
	}
	if at == nil {
		if at, size, err = in.spool(r); err != nil {
			return err
		}
	}
	f, err := perfdata.Open(at, size)
	if err != nil {
		return fmt.Errorf("reading %s: %w", in.Name, err)
	}
	in.setPerf(f)
	return nil
}

func (in *File) setPerf(f *perfdata.File) {
	in.perf, in.plain, in.wait = f, nil, nil
	in.r = errReader{fmt.Errorf("reading %s: it is a perf.data", in.Name)}
	in.Size = f.DataSize()
	in.Done = in.done.Load
}

// openPerfDir opens a directory of perf record --threads.
func openPerfDir(name string) (*File, error) {
	f, done, err := perfdata.OpenDir(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, errors.Join(err, done()))
	}
	in := &File{Name: name, close: []func() error{done}}
	in.setPerf(f)
	in.again = func() (*File, error) { return openPerfDir(name) }
	return in, nil
}

// perfMagic is how many bytes show that a file is a perf.data.
const perfMagic = 8

// spool keeps an input in a temporary file without a name, which goes with the last one
// that reads it.
func (in *File) spool(r io.Reader) (io.ReaderAt, int64, error) {
	temp, err := os.CreateTemp("", "ustack-perf-*")
	if err != nil {
		return nil, 0, fmt.Errorf("keeping %s, which is read twice: %w", in.Name, err)
	}
	size, err := io.Copy(temp, r)
	if err = errors.Join(err, os.Remove(temp.Name())); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("keeping %s, which is read twice: %w", in.Name, err), temp.Close())
	}
	name := in.Name
	in.again = func() (*File, error) { return open(name, io.NewSectionReader(temp, 0, size)) }
	return temp, size, nil
}

// peek looks whether a perf.data, or the dump of a BPF map, was compressed as a whole.
func (in *File) peek() error {
	head := make([]byte, perfMagic)
	n, err := io.ReadFull(in.r, head)
	p := &peeked{head: head[:n], r: in.r, compressed: true}
	switch {
	case err == nil && perfdata.Is(head):
		return in.openPerf(p, nil)
	case stackmap.Is(head[:n]):
		return in.openMap(p)
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		p.r = errReader{err} // reading it says where
	}
	in.r = p
	return nil
}

// perfSource reads a perf.data.
type perfSource struct {
	*perfdata.Source
	in *File
}

func (s *perfSource) name() string { return s.in.Name }

// newPerfSource reads an opened perf.data.
func newPerfSource(in *File, opt Options) *perfSource {
	read := func(n int) { in.done.Add(int64(n)) }
	s := &perfSource{in.perf.Source(binary.Options{
		Events: opt.Events, NoTemplates: opt.NoTemplates, NoText: opt.NoText, BareStacks: opt.Stitched,
	}, read), in}
	s.Unwind(opt.Unwind)
	return s
}

// Recorded returns the inputs that perf has recorded, which have the mappings of processes
// in them.
func (t *Trace) Recorded() []*perfdata.File {
	var list []*perfdata.File
	for _, f := range t.files {
		if f.perf != nil {
			list = append(list, f.perf)
		}
	}
	return list
}
