package tracedat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	ring "ustack/tracefs/binary"
	"ustack/tracefs/format"
)

// Magic is what a trace.dat begins with.
const Magic = "\x17\x08\x44tracing"

// File is an opened trace.dat.
type File struct {
	// Version is 6 or 7.
	Version int
	// Buffers are the ring buffers of the instances, the top level one first
	// if it is there.
	Buffers []Buffer
	// ProcMaps are the texts of the options PROCMAPS, see Processes.
	ProcMaps []string

	r        io.ReaderAt
	size     int64
	order    binary.ByteOrder
	longSize int
	pageSize int
	codec    codec
	kernel   ring.Kernel
	cpus     int             // of a version 6 file
	options  int             // that have been read, in a version 7 file
	seen     map[uint64]bool // what of the kernel has been read, by option
	// clock is the clock of all buffers that do not name another one.
	clock string
	// procMaps is how many bytes of ProcMaps there are, manyProcMaps that some
	// have been left out.
	procMaps     int64
	manyProcMaps bool
}

// Buffer is the ring buffer of one instance.
type Buffer struct {
	// Name is the instance's, "" for the top level.
	Name string
	// Clock is the name of the trace clock.
	Clock string
	// PageSize is the size of a sub-buffer in bytes.
	PageSize int
	cpus     []region
	packed   bool // the regions are compressed
}

// region is where the data of one CPU lies.
type region struct {
	cpu      int32
	at, size int64
}

// maxCPUs is the largest NR_CPUS that Linux can be built for; maxBuffers bounds
// the instances of one file.
const (
	maxCPUs    = 8192
	maxBuffers = 200
	maxPage    = ring.MaxSubbuf
)

// Open reads all of a trace.dat but the trace data. If a part cannot be read, the
// error names it, and the File has the buffers that were found nevertheless; it is
// nil if there are none.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, order: binary.LittleEndian, seen: make(map[uint64]bool)}
	c := f.at(0)
	c.want(Magic)
	version := c.name()
	if c.err == nil && version != "6" && version != "7" {
		return nil, fmt.Errorf("trace.dat of version %.8q; 6 and 7 are known", version)
	}
	big := c.number(1) != 0
	if big {
		f.order = binary.BigEndian
	}
	c.order = f.order
	f.longSize, f.pageSize = int(c.number(1)), int(c.u32())
	if c.err != nil {
		return nil, fmt.Errorf("reading the head of a trace.dat: %w", c.err)
	}
	if f.pageSize < 64 || f.pageSize > maxPage || f.longSize != 4 && f.longSize != 8 {
		return nil, fmt.Errorf("reading the head of a trace.dat: pages of %d bytes, longs of %d", f.pageSize, f.longSize)
	}
	f.kernel.Layout.Page = *format.DefaultPage()
	f.kernel.Layout.BigEndian = big
	var err error
	if f.Version = int(version[0] - '0'); f.Version == 6 {
		err = f.readV6(c)
	} else {
		err = f.readV7(c)
	}
	err = errors.Join(err, f.overlap())
	if len(f.Buffers) == 0 {
		return nil, errors.Join(err, errors.New("no trace data in this trace.dat"))
	}
	if len(f.kernel.Events) == 0 {
		return nil, errors.Join(err, errors.New("no event formats in this trace.dat"))
	}
	return f, err
}

// overlap refuses trace data that would be read more than once: a file that
// says so wants to seem larger than it is.
func (f *File) overlap() error {
	left := f.size
	for _, b := range f.Buffers {
		for _, g := range b.cpus {
			left -= max(0, min(g.size, f.size-g.at))
		}
	}
	if left >= 0 {
		return nil
	}
	f.Buffers = nil
	return errors.New("the data of its CPUs overlap")
}

// at returns a cursor over the file from an offset on.
func (f *File) at(off int64) *cursor {
	c := cursor{r: f.r, order: f.order, end: f.size}
	return c.within(off, max(0, f.size-off))
}

// Source reads one buffer from its beginning. It calls read with the number of
// bytes read, for progress; read may be nil.
func (f *File) Source(b *Buffer, opt ring.Options, read func(int)) *ring.Source {
	k := f.kernel
	k.Clock, k.Subbuf = f.Clock(b), b.PageSize
	var buffers []ring.Buffer
	for _, g := range b.cpus {
		buffers = append(buffers, ring.Buffer{CPU: g.cpu, Pages: f.pages(b, g, read)})
	}
	return ring.NewSource(&k, buffers, opt)
}

// Clock returns the name of the trace clock of a buffer, "" if unknown.
func (f *File) Clock(b *Buffer) string {
	if b.Clock != "" {
		return b.Clock
	}
	return f.clock
}

// DataSize returns how many bytes of trace data a buffer has in the file.
func (b *Buffer) DataSize() (n int64) {
	for _, g := range b.cpus {
		n += g.size
	}
	return n
}
