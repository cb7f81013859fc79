package pagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/escape"
	"ustack/tracefs/ring"
)

// Source reads the records of the file; read, if not nil, gets the number of bytes that
// were read, for progress. The head and the last line of the report are notes before
// and after them.
func (f *File) Source(opt tracebinary.Options, read func(int)) *tracebinary.Source {
	var buffers []tracebinary.Buffer
	for _, c := range f.cpus {
		buffers = append(buffers, tracebinary.Buffer{CPU: c.cpu, Pages: &pages{f: f, layout: f.layout(), chunks: c.at, read: read}})
	}
	opt.Before, opt.After = lines(f.head), lines(f.end)
	return tracebinary.NewSource(f.Kernel, buffers, opt)
}

// Size returns how many bytes of pages there are, as Source counts them.
func (f *File) Size() (n int64) {
	for _, c := range f.cpus {
		n += c.sizes
	}
	return n
}

// Err returns what is wrong with the file as a whole, nil for nothing: its end is missing,
// or there is more after it.
func (f *File) Err() error { return f.err }

// Notes returns the remarks of the writer, without control characters.
func (f *File) Notes() (out []string) {
	for _, n := range f.notes {
		out = append(out, string(escape.Append(nil, []byte(n))))
	}
	return out
}

// ID returns the identifier that the log has, too: "" if the report has none.
func (f *File) ID() string {
	for line := range bytes.Lines(f.head) {
		if id, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(idLine)); ok {
			return string(id)
		}
	}
	return ""
}

// idLine is the line of the head with the identifier of the trace.
const idLine = linePrefix + "trace="

// linePrefix begins the lines of a report's own.
const linePrefix = "# ustack: "

// lines returns the lines of a report's own, escaped; others are left out: a record could
// be among them.
func lines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if body, ok := bytes.CutPrefix(line, []byte(linePrefix)); ok {
			out = append(out, linePrefix...)
			out = escape.Append(out, escape.Undo(bytes.TrimSuffix(body, []byte("\n"))))
			out = append(out, '\n')
		}
	}
	return out
}

func (f *File) layout() *ring.Layout {
	layout := f.Kernel.Layout
	if f.Kernel.Subbuf > 0 {
		layout.Size = f.Kernel.Subbuf
	}
	return &layout
}

// pages are the sub-buffers of a CPU. It implements binary.Pages.
type pages struct {
	f      *File
	layout *ring.Layout
	chunks []int64
	read   func(int)
	buf    []byte
	rest   []byte // of the chunk
	errs   []error
}

// maxErrors bounds the damaged chunks of a CPU that are reported one by one.
const maxErrors = 10

var errPages = errors.New("no list of sub-buffers")

// Page implements binary.Pages. In the place of a chunk that cannot be read it gives a
// sub-buffer that says that records are missing.
func (p *pages) Page() ([]byte, error) {
	for len(p.rest) == 0 {
		if len(p.chunks) == 0 {
			return nil, p.ended()
		}
		at := p.chunks[0]
		p.chunks = p.chunks[1:]
		data, err := p.f.unpack(p.buf, at)
		if err != nil {
			return p.damaged(err), nil
		}
		p.buf, p.rest = data, data
		if p.read != nil {
			p.read(len(data))
		}
	}
	if len(p.rest) < 4 {
		return p.damaged(errPages), nil
	}
	size := int64(binary.LittleEndian.Uint32(p.rest))
	if size > int64(len(p.rest)-4) {
		return p.damaged(errPages), nil
	}
	page := p.rest[4 : 4+size]
	p.rest = p.rest[4+size:]
	return page, nil
}

// damaged notes that the rest of a chunk cannot be read.
func (p *pages) damaged(err error) []byte {
	p.rest = nil
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, err)
	}
	return p.layout.Gap()
}

// ended returns what comes after the last page.
func (p *pages) ended() error {
	if len(p.errs) == 0 {
		return io.EOF
	}
	return errors.Join(p.errs...)
}

// Log returns the log of address spaces, nil if there is none. A chunk that cannot be read
// ends it.
func (f *File) Log() io.Reader {
	if len(f.log) == 0 {
		return nil
	}
	return &logReader{f: f, chunks: f.log}
}

// logReader reads the log.
type logReader struct {
	f         *File
	chunks    []int64
	buf, rest []byte
}

// Read implements io.Reader.
func (l *logReader) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		if len(l.chunks) == 0 {
			return 0, io.EOF
		}
		data, err := l.f.unpack(l.buf, l.chunks[0])
		if err != nil {
			return 0, err
		}
		l.chunks, l.buf, l.rest = l.chunks[1:], data, data
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
