// Package perftest makes records and rings as the kernel does, for tests.
package perftest

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
)

// Ring is a ring in our own memory, to which the test writes as the kernel.
type Ring struct {
	*perf.Ring
	head, tail *uint64
	data       []byte
}

// NewRing makes a ring of a CPU with room for size bytes, a power of two.
func NewRing(cpu, size int) *Ring {
	page := os.Getpagesize()
	mem := make([]byte, page+size)
	head := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(mem)))
	return &Ring{Ring: perf.RingOf(cpu, mem), head: &head.Data_head, tail: &head.Data_tail, data: mem[page:]}
}

// Write writes records, and reports whether there was room. As the kernel does, it moves the
// head once a record is whole: another goroutine may read meanwhile.
func (r *Ring) Write(records ...[]byte) bool {
	for _, b := range records {
		head := atomic.LoadUint64(r.head)
		if uint64(len(r.data))-(head-atomic.LoadUint64(r.tail)) < uint64(len(b)) {
			return false
		}
		for _, c := range b {
			r.data[head%uint64(len(r.data))] = c
			head++
		}
		atomic.StoreUint64(r.head, head)
	}
	return true
}

// Skip moves the counters of the ring on, as if so many bytes had been written and
// read.
func (r *Ring) Skip(n uint64) { *r.head, *r.tail = *r.head+n, *r.tail+n }

// Overrun moves the kernel's counter on, as if it had written so many bytes.
func (r *Ring) Overrun(n uint64) { *r.head += n }

// Unread returns how many bytes of records were not read.
func (r *Ring) Unread() uint64 { return *r.head - *r.tail }

// Record returns a record as the kernel writes it: header, body, and the PID 1, the
// TID 2, the time and the CPU.
func Record(kind uint32, misc uint16, t uint64, cpu uint32, body ...[]byte) []byte {
	body = slices.Concat(body, [][]byte{U32(1, 2), U64(t), U32(cpu, 0)})
	size := 8
	for _, part := range body {
		size += len(part)
	}
	put := binary.NativeEndian
	out := put.AppendUint32(nil, kind)
	out = put.AppendUint16(out, misc)
	out = put.AppendUint16(out, uint16(size))
	return append(out, bytes.Join(body, nil)...)
}

// U32 returns the bytes of 32-bit fields.
func U32(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// U64 returns the bytes of 64-bit fields.
func U64(values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// IDs returns the bytes of PIDs and TIDs, 32 bits each.
func IDs(values ...int) []byte {
	var b []byte
	for _, v := range values {
		b = binary.NativeEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// Name returns the bytes of a name: NUL-terminated and padded to 8 bytes.
func Name(s string) []byte { return append([]byte(s), make([]byte, 8-len(s)%8)...) }
