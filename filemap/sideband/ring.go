package sideband

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// ring is the ring buffer of a CPU: the kernel writes at its head, we read at
// its tail.
type ring struct {
	cpu   int
	fd    int
	extra []int // events whose records go here, too
	// soft: it has only records of what perf does not report, see
	// History.Unsure.
	soft     bool
	features features
	mem      []byte // as mapped: a page that describes it, then data
	data     []byte
	head     *uint64 // of the kernel
	tail     *uint64 // ours
	loss     loss
	last     tracefs.Time // of the last record
}

// minRing is the smallest ring worth having.
const minRing = 32 << 10

// newRing opens the ring of a CPU. If the kernel has not as much memory for us,
// it is made smaller.
func (o *Options) newRing(cpu int, clock int32) (*ring, error) {
	defer privilege.Raise(privilege.Perf).Lower()
	size := ringSize(o.RingSize)
	for {
		fd, f, err := o.openEvent(cpu, clock, size)
		if err != nil {
			return nil, openError(cpu, err)
		}
		r := &ring{cpu: cpu, fd: fd, features: f}
		err = r.mmap(size)
		if err == nil {
			return r, nil
		}
		_ = unix.Close(fd)
		memory := err == unix.EPERM || err == unix.ENOMEM
		if memory && size > minRing {
			size /= 2
			continue
		}
		if memory {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		return nil, fmt.Errorf("mapping the perf ring of CPU %d, %d KiB: %w", cpu, size>>10, err)
	}
}

// ringSize is a size the kernel takes: a power of two of pages.
func ringSize(size int) int {
	const maxRing = 1 << 30
	size = min(max(size, minRing, os.Getpagesize()), maxRing)
	return 1 << bits.Len(uint(size-1))
}

// mmap maps the ring, and shares head and tail with the kernel.
func (r *ring) mmap(size int) error {
	page := os.Getpagesize()
	mem, err := unix.Mmap(r.fd, 0, page+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	head := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(mem)))
	r.mem, r.data = mem, mem[page:]
	r.head, r.tail = &head.Data_head, &head.Data_tail
	return nil
}

// read appends what the kernel has written since the last time, and gives the
// room back. The load of the head comes before those of the data, and those
// before the store of the tail: perf_output_put_handle in
// kernel/events/ring_buffer.c is the other side.
func (r *ring) read(b []byte) (_ []byte, full bool) {
	head, tail := atomic.LoadUint64(r.head), atomic.LoadUint64(r.tail)
	n, size := head-tail, uint64(len(r.data))
	if n > size { // cannot be, unless somebody else writes to our tail
		tail, n = head, 0
	}
	for at := tail; at != head; {
		part := r.data[at&(size-1):]
		part = part[:min(uint64(len(part)), head-at)]
		b = append(b, part...)
		at += uint64(len(part))
	}
	atomic.StoreUint64(r.tail, head)
	return b, size-n < maxRecord
}

// count asks how many records the kernel had no room for, since the ring was
// opened.
func (r *ring) count() (uint64, error) {
	if !r.features.lost {
		return 0, errors.ErrUnsupported
	}
	all, err := lostOf(r.fd)
	for _, fd := range r.extra {
		lost, more := lostOf(fd)
		all, err = all+lost, errors.Join(err, more)
	}
	return all, err
}

// lostOf asks how many records of an event there was no room for.
func lostOf(fd int) (uint64, error) {
	var b [16]byte // the value of the event, then PERF_FORMAT_LOST
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return 0, err
	}
	if n != len(b) {
		return 0, fmt.Errorf("%d bytes instead of %d", n, len(b))
	}
	return binary.NativeEndian.Uint64(b[8:]), nil
}

// close gives all back.
func (r *ring) close() error {
	err := errors.Join(unix.Munmap(r.mem), unix.Close(r.fd))
	for _, fd := range r.extra {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
