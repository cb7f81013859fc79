package perf

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

// Ring is the ring buffer of a CPU: the kernel writes at its head, we read at
// its tail. It is for one goroutine.
type Ring struct {
	// CPU is the CPU whose records the ring has.
	CPU int
	// WithoutTasks leaves out forks and exits, which the kernel reports beside
	// mappings whether they were asked for or not (perf_event_task_match in
	// kernel/events/core.c): for a ring beside another one that has them. The records of
	// mappings are marked: the other one has those of code, too.
	WithoutTasks bool

	fd      int
	extra   []int  // events whose records go here, too
	mem     []byte // as mapped: a page that describes it, then data
	data    []byte
	head    *uint64 // of the kernel
	tail    *uint64 // ours
	loss    loss
	wrapped []byte       // a record that wraps around the end
	last    tracefs.Time // of the last record
}

const (
	// MinRing is the smallest ring worth having, in bytes.
	MinRing = 32 << 10
	// maxRecord is more than a record without a stack has: a name of PATH_MAX and
	// the rest.
	maxRecord = 4096 + 256
)

// OpenRing opens an event, which is passed the size of its ring in bytes, and maps
// the ring. If the kernel has not so much memory for us, the ring is smaller.
// errors.Is(err, ErrMemory) if it has not even MinRing; else an error of open, as
// it is.
func OpenRing(cpu, size int, open func(size int) (fd int, err error)) (*Ring, error) {
	defer privilege.Raise(privilege.Perf).Lower()
	for size = ringSize(size); ; size /= 2 {
		fd, err := open(size)
		if err != nil {
			return nil, err
		}
		mem, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			r := RingOf(cpu, mem)
			r.fd = fd
			return r, nil
		}
		_ = unix.Close(fd)
		memory := err == unix.EPERM || err == unix.ENOMEM
		if memory && size > MinRing {
			continue
		}
		if memory {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		return nil, fmt.Errorf("mapping the perf ring of CPU %d, %d KiB: %w", cpu, size>>10, err)
	}
}

// RingOf returns the ring that memory holds: a page that describes it, then data, a
// power of two of bytes (struct perf_event_mmap_page).
func RingOf(cpu int, mem []byte) *Ring {
	head := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(mem)))
	return &Ring{CPU: cpu, fd: -1, mem: mem, data: mem[os.Getpagesize():], head: &head.Data_head, tail: &head.Data_tail}
}

// ringSize returns a size the kernel takes: a power of two of pages.
func ringSize(size int) int {
	const maxRing = 1 << 30
	size = min(max(size, MinRing, os.Getpagesize()), maxRing)
	return 1 << bits.Len(uint(size-1))
}

// Size returns the room for records, in bytes.
func (r *Ring) Size() int { return len(r.data) }

// FD returns the descriptor to poll(2): it is readable when as many bytes are
// there as Event.Wakeup says.
func (r *Ring) FD() int { return r.fd }

// Begin notes that the ring has all records from a time on.
func (r *Ring) Begin(t tracefs.Time) { r.last = t }

// Last returns the time of the last record that was read, or since when the ring has
// all records, if that is later.
func (r *Ring) Last() tracefs.Time { return r.last }

// Add notes an event that was opened Into the ring, for Lost and Close.
func (r *Ring) Add(fd int) { r.extra = append(r.extra, fd) }

// bounds returns what the kernel has written and we have not read. The load of the
// head comes before the loads of the data, and they before the store of the tail:
// perf_output_put_handle in kernel/events/ring_buffer.c is the other side.
func (r *Ring) bounds() (tail, head uint64) {
	head, tail = atomic.LoadUint64(r.head), atomic.LoadUint64(r.tail)
	if head-tail > uint64(len(r.data)) { // cannot be, unless another one writes to our tail
		tail = head
	}
	return tail, head
}

// Read appends what the kernel has written since the last time, and gives the
// room back. It was full if there was no room for one more record until then.
func (r *Ring) Read(b []byte) (_ []byte, full bool) {
	b, tail, head := r.copied(b)
	return b, r.release(tail, head)
}

// release gives the room between two places back, and reports whether the ring was full: the
// kernel can have filled it while it was copied.
func (r *Ring) release(tail, head uint64) (full bool) {
	atomic.StoreUint64(r.tail, head)
	return atomic.LoadUint64(r.head)-tail+maxRecord > uint64(len(r.data))
}

// copied appends what the kernel has written, which is between two places.
func (r *Ring) copied(b []byte) (_ []byte, tail, head uint64) {
	tail, head = r.bounds()
	size := uint64(len(r.data))
	for at := tail; at != head; {
		part := r.data[at&(size-1):]
		part = part[:min(uint64(len(part)), head-at)]
		b = append(b, part...)
		at += uint64(len(part))
	}
	return b, tail, head
}

// view returns the memory from a place in the ring on, n bytes of it: where it
// wraps around the end, a copy.
func (r *Ring) view(at uint64, n int) []byte {
	from := r.data[at&uint64(len(r.data)-1):]
	if len(from) >= n {
		return from[:n]
	}
	r.wrapped = append(append(r.wrapped[:0], from...), r.data[:n-len(from)]...)
	return r.wrapped
}

// Lost returns how many records the kernel had no room for since the ring was
// opened. It is an error if an event does not count them (Event.CountLost).
func (r *Ring) Lost() (uint64, error) {
	if r.fd < 0 {
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
		return 0, fmt.Errorf("%w: %d bytes instead of %d", errors.ErrUnsupported, n, len(b))
	}
	return binary.NativeEndian.Uint64(b[8:]), nil
}

// Close unmaps the ring and closes its events.
func (r *Ring) Close() error {
	if r.fd < 0 {
		return nil
	}
	err := errors.Join(unix.Munmap(r.mem), unix.Close(r.fd))
	for _, fd := range r.extra {
		err = errors.Join(err, unix.Close(fd))
	}
	r.fd = -1
	return err
}
