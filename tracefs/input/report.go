package input

import (
	"fmt"
	"io"

	"ustack/tracefs/binary"
	"ustack/tracefs/pagefile"
)

// openReport opens a report of pages, which must be a file: it is not read in order.
func (in *File) openReport(file io.Reader) error {
	r, size, err := in.readerAt(file, int64(len(pagefile.Magic[:4])))
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("reading %s: it is a report of pages, which cannot be read from a pipe: give it as a file", in.Name)
	}
	f, err := pagefile.Open(r, size)
	if err != nil {
		return fmt.Errorf("reading %s: %w", in.Name, err)
	}
	in.report = f
	in.close = append(in.close, func() error { f.Close(); return nil })
	clock := func(int) string { return f.Kernel.Clock }
	in.setPages(&pages{instances: 1, err: f.Err(), clock: clock, source: func(_ int, opt binary.Options, read func(int)) *binary.Source {
		return f.Source(opt, read)
	}})
	in.Size = f.Size()
	return nil
}

// Report returns the report of pages that a file is, nil if it is none.
func (in *File) Report() *pagefile.File { return in.report }

// Reports returns the inputs that are reports of pages.
func (t *Trace) Reports() (all []*pagefile.File) {
	for _, f := range t.files {
		if f.report != nil {
			all = append(all, f.report)
		}
	}
	return all
}
