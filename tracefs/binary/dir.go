package binary

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Dir is a directory with the sub-buffers of each CPU, rawN.bin as read from
// per_cpu/cpuN/trace_pipe_raw, and a meta/ laid out like tracefs.
type Dir struct {
	// Kernel is described by meta/.
	Kernel *Kernel
	// Size is the number of bytes of all buffers.
	Size  int64
	files []*os.File
	cpus  []int32
}

var rawName = regexp.MustCompile(`^raw(\d{1,5})\.bin$`)

// IsDir reports whether a directory is one for OpenDir.
func IsDir(name string) bool {
	entries, err := os.ReadDir(name)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return rawName.MatchString(e.Name()) })
}

// OpenDir opens such a directory.
func OpenDir(name string) (*Dir, error) {
	meta := os.DirFS(filepath.Join(name, "meta"))
	k, err := ReadMeta(meta, meta)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(name, "meta"), err)
	}
	d := &Dir{Kernel: k}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("looking for rawN.bin: %w", err)
	}
	for _, e := range entries {
		m := rawName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		cpu, _ := strconv.ParseInt(m[1], 10, 32)
		if err := d.open(filepath.Join(name, e.Name()), int32(cpu)); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	d.guess()
	return d, nil
}

func (d *Dir) open(name string, cpu int32) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("opening a ring buffer: %w", err)
	}
	d.files, d.cpus = append(d.files, f), append(d.cpus, cpu)
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("looking at %s: %w", name, err)
	}
	d.Size += info.Size()
	return nil
}

// Source reads the directory from its beginning. It calls read with the number of
// bytes read, for progress.
func (d *Dir) Source(opt Options, read func(int)) *Source {
	var buffers []Buffer
	for i, f := range d.files {
		r := io.NewSectionReader(f, 0, 1<<62)
		buffers = append(buffers, Buffer{CPU: d.cpus[i], Pages: NewPages(r, d.subbuf(), read)})
	}
	return NewSource(d.Kernel, buffers, opt)
}

func (d *Dir) subbuf() int {
	if d.Kernel.Subbuf > 0 {
		return d.Kernel.Subbuf
	}
	return d.Kernel.Layout.Size
}

// Close closes the files.
func (d *Dir) Close() error {
	var errs []error
	for _, f := range d.files {
		errs = append(errs, f.Close())
	}
	d.files = nil
	return errors.Join(errs...)
}

// readSize is how much of a file is read at once.
const readSize = 64 << 10

// filePages reads sub-buffers that lie one after the other.
type filePages struct {
	r    io.Reader
	size int
	read func(int)
	room int
	buf  []byte
	rest []byte
	err  error
}

// NewPages reads sub-buffers of one size from r; it calls read, if not nil, with
// the number of bytes that came. It takes memory only for what r has, if r knows
// its size.
func NewPages(r io.Reader, size int, read func(int)) Pages {
	room := max(1, readSize/size) * size
	if sized, ok := r.(interface{ Size() int64 }); ok {
		room = int(min(int64(room), sized.Size()+1)) // one more, to meet the end
	}
	return &filePages{r: r, size: size, read: read, room: room}
}

// Page implements Pages.
func (p *filePages) Page() ([]byte, error) {
	if len(p.rest) == 0 && p.err == nil {
		if p.buf == nil {
			p.buf = make([]byte, p.room)
		}
		n, err := io.ReadFull(p.r, p.buf)
		if p.read != nil {
			p.read(n)
		}
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		p.rest, p.err = p.buf[:n], err
	}
	if len(p.rest) >= p.size {
		page := p.rest[:p.size]
		p.rest = p.rest[p.size:]
		return page, nil
	}
	page := p.rest
	p.rest = nil
	if len(page) > 0 && p.err == io.EOF {
		return page, fmt.Errorf("it ends after %d of %d bytes", len(page), p.size)
	}
	return page, p.err
}
