// Package perftest makes records and rings as the kernel does, for tests.
package perftest

import (
	"bytes"
	"encoding/binary"
	"os"
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

// Write writes records, and reports whether there was room.
func (r *Ring) Write(records ...[]byte) bool {
	for _, b := range records {
		if uint64(len(r.data))-(*r.head-*r.tail) < uint64(len(b)) {
			return false
		}
		for _, c := range b {
			r.data[*r.head%uint64(len(r.data))] = c
			*r.head++
		}
	}
	return true
}

// Skip moves the counters of the ring on, as if so many bytes had been written and
// read.
func (r *Ring) Skip(n uint64) { *r.head, *r.tail = *r.head+n, *r.tail+n }

// Overrun moves the kernel's counter on, as if it had written so many bytes.
func (r *Ring) Overrun(n uint64) { *r.head += n }

// Unread is how many bytes of records were not read.
func (r *Ring) Unread() uint64 { return *r.head - *r.tail }

// Record makes a record as the kernel does: header, body, and the PID 1, the TID 2, the
// time and the CPU. Strings end with NUL and are padded.
func Record(kind uint32, misc uint16, t uint64, cpu uint32, body ...any) []byte {
	b := Body(body...)
	put := binary.NativeEndian
	out := put.AppendUint32(nil, kind)
	out = put.AppendUint16(out, misc)
	out = put.AppendUint16(out, uint16(8+len(b)+24))
	out = append(out, b...)
	return append(out, Body(uint32(1), uint32(2), t, cpu, uint32(0))...)
}

// Body are values as the kernel lays them out.
func Body(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if s, ok := v.(string); ok {
			b.WriteString(s)
			b.Write(make([]byte, 8-len(s)%8)) // at least one NUL
			continue
		}
		if err := binary.Write(&b, binary.NativeEndian, v); err != nil {
			panic(err) // a mistake of the test
		}
	}
	return b.Bytes()
}
