package instance

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mappedCPU is the ring buffer of one CPU in our memory (Linux 6.10,
// Documentation/trace/ring-buffer-map.rst). Its costs: its pages count as our
// resident set, and the kernel refuses to change its size meanwhile.
type mappedCPU struct {
	meta, data []byte
	subbuf     int
	reader     int // the sub-buffer that is being read, -1 for none yet
}

// Offsets in struct trace_buffer_meta (include/uapi/linux/trace_mmap.h).
const (
	metaPageSize = 0
	metaSubbuf   = 8
	metaCount    = 12
	metaReader   = 24
	metaOverrun  = 48
	metaLen      = 80

	// TRACE_MMAP_IOCTL_GET_READER: _IO('R', 0x20).
	ioctlGetReader = 'R'<<8 | 0x20
)

// mapCPU maps the buffer of a trace_pipe_raw.
func mapCPU(fd int) (*mappedCPU, error) {
	meta, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	word := func(at int) int { return int(binary.NativeEndian.Uint32(meta[at:])) }
	m := &mappedCPU{meta: meta, subbuf: word(metaSubbuf), reader: -1}
	size := m.subbuf * word(metaCount)
	if m.subbuf <= 0 || size <= 0 || len(meta) < metaLen {
		m.unmap()
		return nil, fmt.Errorf("%d sub-buffers of %d bytes", word(metaCount), m.subbuf)
	}
	if m.data, err = unix.Mmap(fd, int64(word(metaPageSize)), size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		m.unmap()
		return nil, err
	}
	return m, nil
}

// overrun returns how many records had been written over at the last call of
// next.
func (m *mappedCPU) overrun() uint64 { return binary.NativeEndian.Uint64(m.meta[metaOverrun:]) }

func (m *mappedCPU) unmap() {
	for _, b := range []*[]byte{&m.meta, &m.data} {
		if *b != nil {
			_ = unix.Munmap(*b) // it was mapped so
		}
		*b = nil
	}
}

// next has the kernel take the records of the sub-buffer as read, and move to
// the next one if those were all. fresh means that it is another one now.
func (m *mappedCPU) next(fd int) (page []byte, fresh bool, err error) {
	for {
		_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), ioctlGetReader, 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return nil, false, e
		}
		break
	}
	reader := int(binary.NativeEndian.Uint32(m.meta[metaReader:]))
	if at := reader * m.subbuf; reader < 0 || at+m.subbuf > len(m.data) {
		return nil, false, fmt.Errorf("sub-buffer %d of %d", reader, len(m.data)/m.subbuf)
	}
	fresh = reader != m.reader
	m.reader = reader
	return m.data[reader*m.subbuf:][:m.subbuf], fresh, nil
}
