package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"ustack/tracefs/binary"
	"ustack/tracefs/pagefile"
	"ustack/tracefs/perfdata"
	"ustack/tracefs/stackmap"
	"ustack/tracefs/tracedat"
)

// maxWindow bounds the memory that a zstd file can ask for. It covers what
// zstd writes up to level 19; --long files need more.
const maxWindow = 8 << 20

// File is an opened trace, decompressed if need be.
type File struct {
	// Name is for messages.
	Name string
	// Size is the number of bytes on disk if it is a regular file, else 0.
	Size int64
	// Done counts the bytes read so far from disk.
	Done func() int64

	r     io.Reader
	wait  func(time.Duration) (bool, error)
	close []func() error
	again func() (*File, error)

	foreign bool     // the kernel's own text, whatever it begins with
	plain   *os.File // a regular file that is read as it is, from start on
	start   int64
	counted *counter
	// pages are the ring buffers of a binary trace, nil for text.
	pages *pages
	// perf is what perf has recorded, nil for anything else; done counts its bytes.
	perf *perfdata.File
	done atomic.Int64
	// report is a report of pages, nil for anything else.
	report *pagefile.File
	// stacks are of a BPF map, nil for anything else.
	stacks *stackmap.Text
	// instances are those of a text of trace-cmd report that has several, else nil.
	instances *instances
	// expanded: kernel stacks are in place of their numbers, so the file is not read as it is.
	expanded bool
	// note is a remark, "" for none.
	note string
}

// Open opens a file by name; "-" is standard input, given as stdin. The first
// bytes show whether it is text, compressed text or a trace.dat, never the
// name. A directory with rawN.bin in it is a trace, too.
func Open(name string, stdin io.Reader) (*File, error) {
	if name == "-" {
		return open("standard input", stdin)
	}
	if binary.IsDir(name) {
		return openPages(name)
	}
	if perfdata.Supported && perfdata.IsDir(name) {
		return openPerfDir(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening a trace: %w", err)
	}
	in, err := open(name, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	in.close = append(in.close, f.Close)
	if in.again != nil {
		in.again = func() (*File, error) { return Open(name, nil) }
	}
	if err := in.useStackMap(name); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func open(name string, r io.Reader) (*File, error) {
	in, from := &File{Name: name}, r
	if f, ok := r.(*os.File); ok {
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", name, err)
		}
		switch {
		case info.IsDir():
			return nil, fmt.Errorf("reading %s: it is a directory", name)
		case info.Mode().IsRegular() && info.Size() > 0: // files of tracefs and /proc have no size
			in.Size = info.Size()
			start, err := f.Seek(0, io.SeekCurrent)
			if err == nil {
				in.plain, in.start = f, start
				in.again = func() (*File, error) { return open(name, io.NewSectionReader(f, start, 1<<62)) }
			}
		default:
			once := &ending{r: f}
			in.wait = func(d time.Duration) (bool, error) {
				if once.over.Load() {
					return true, nil
				}
				return readable(f, d)
			}
			from = once
		}
	}
	in.counted = &counter{r: from}
	in.Done = in.counted.count
	err := in.decompress(in.counted, r)
	if in.Compressed() || in.pages != nil || in.stacks != nil {
		in.plain = nil
	}
	switch {
	case err != nil:
	case in.Compressed():
		err = in.peek()
	case in.plain != nil && !in.isEscaped():
		err = in.findInstances()
	}
	return in, err
}

// seek makes reading go on at a place of a plain file.
func (in *File) seek(pos int64) error {
	if _, err := in.plain.Seek(in.start+pos, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s at byte %d: %w", in.Name, pos, err)
	}
	in.r = in.counted
	in.counted.n.Store(pos)
	return nil
}

// Waiter is a trace that is being made: reading waits for what comes.
type Waiter interface {
	io.ReadCloser
	// Wait waits until Read would return something, at most for so long, and
	// reports whether it would.
	Wait(time.Duration) (bool, error)
}

// Live makes a File of a trace that is being made, an open trace_pipe. Nothing
// is read of it yet, and it is never taken for a compressed one. Closing the
// File closes the pipe.
func Live(name string, pipe Waiter) *File {
	counted := &counter{r: pipe}
	return &File{Name: name, Done: counted.count, r: counted, foreign: true, wait: pipe.Wait, close: []func() error{pipe.Close}}
}

// decompress looks at the first bytes and puts the right reader in.
func (in *File) decompress(r, file io.Reader) error {
	head := make([]byte, 10)
	n, err := io.ReadFull(r, head[:4])
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return fmt.Errorf("reading %s at byte 0: %w", in.Name, err)
	}
	head = head[:n]
	all := io.MultiReader(bytes.NewReader(head), r)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bufio.NewReaderSize(all, 64<<10))
		if err != nil {
			return fmt.Errorf("reading %s as gzip: %w", in.Name, err)
		}
		in.r, in.wait = z, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(all, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return fmt.Errorf("reading %s as zstd: %w", in.Name, err)
		}
		in.close = append(in.close, func() error { z.Close(); return nil })
		in.r, in.wait = z, nil
	case perfdata.Is(head):
		n, err := io.ReadFull(r, head[4:perfMagic])
		if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
			return fmt.Errorf("reading %s at byte 4: %w", in.Name, err)
		}
		head = head[:4+n]
		in.r = &peeked{head: head, r: r}
		if len(head) == perfMagic && perfdata.Is(head) {
			return in.openPerf(in.r, file)
		}
	case bytes.HasPrefix([]byte(tracedat.Magic), head) && len(head) == 4:
		in.r = &peeked{head: head, r: r}
		return in.openDat(file)
	case pagefile.Is(head):
		in.r = &peeked{head: head, r: r}
		return in.openReport(file)
	case stackmap.Is(head):
		return in.openMap(&peeked{head: head, r: r})
	case len(head) == 0:
		in.r = r
	default:
		in.r = &peeked{head: head, r: r}
	}
	return nil
}

// peeked gives back the first bytes and then gets out of the way.
type peeked struct {
	head       []byte
	r          io.Reader
	compressed bool // r decompresses
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	return p.r.Read(b)
}

// counter counts the bytes read; another goroutine may ask.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) count() int64 { return c.n.Load() }

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// Once returns a reader that has one end: a terminal would wait for more after it.
func Once(r io.Reader) io.Reader { return &ending{r: r} }

// ending is what Once returns.
type ending struct {
	r    io.Reader
	over atomic.Bool
}

func (e *ending) Read(b []byte) (int, error) {
	if e.over.Load() {
		return 0, io.EOF
	}
	n, err := e.r.Read(b)
	e.over.Store(err == io.EOF)
	return n, err
}

// readable waits until a pipe, terminal or socket has something to read, or
// has ended. A signal (Go's own, to switch goroutines) is no end of the wait.
func readable(f *os.File, d time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(d); ; d = max(time.Until(end), 0) {
		n, err := unix.Poll(fds, int(d.Milliseconds()))
		if err != unix.EINTR {
			return n > 0, err
		}
	}
}

// Read implements io.Reader: the decompressed bytes.
func (in *File) Read(b []byte) (int, error) { return in.r.Read(b) }

// Again opens the same trace from its beginning, nil if that is not possible.
func (in *File) Again() func() (*File, error) { return in.again }

// Compressed reports whether the file is not read as it is.
func (in *File) Compressed() bool {
	switch r := in.r.(type) {
	case *gzip.Reader, *zstd.Decoder:
		return true
	case *peeked:
		return r.compressed
	}
	return false
}

// Close closes the file, not standard input.
func (in *File) Close() error {
	var errs []error
	for i := len(in.close) - 1; i >= 0; i-- {
		errs = append(errs, in.close[i]())
	}
	in.close = nil
	return errors.Join(errs...)
}
