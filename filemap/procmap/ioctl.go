package procmap

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlQuery is PROCMAP_QUERY of include/uapi/linux/fs.h:
// _IOWR('f', 17, struct procmap_query). golang.org/x/sys does not have it.
const ioctlQuery = 0xc0686611

// Flags of a query, beside Perms (PROCMAP_QUERY_* of include/uapi/linux/fs.h).
const (
	coveringOrNext = 0x10
	fileBacked     = 0x20
)

// query is struct procmap_query of include/uapi/linux/fs.h, 104 bytes.
type query struct {
	size        uint64
	flags       uint64
	addr        uint64
	start       uint64 // from here on: what the kernel answers
	end         uint64
	perms       uint64
	pageSize    uint64
	offset      uint64
	inode       uint64
	major       uint32
	minor       uint32
	nameSize    uint32 // in: of the buffer; out: with the NUL, 0 if none
	buildIDSize uint32 // always 0, as is buildID: see fileID
	name        uint64 // address of the buffer
	buildID     uint64
}

// nameRoom is the room for a name: the kernel uses no more (PATH_MAX).
const nameRoom = 4096

// buffers are what a query reads into, used again and again.
type buffers struct {
	q    query
	name [nameRoom]byte
	// call makes the ioctl; another one stands in for the kernel in tests.
	call func(fd int, arg unsafe.Pointer) unix.Errno
}

// newBuffers returns buffers for questions to the kernel.
func newBuffers() *buffers { return &buffers{call: ioctl} }

// ask makes one query: for the numbers, and the name too if it is wanted, but
// never for the build ID (see fileID). The buffers must be on the heap, which
// does not move: the kernel gets their addresses as numbers.
func (b *buffers) ask(fd int, addr, flags uint64, wantName bool) unix.Errno {
	q := &b.q // what the last answer left in it is overwritten
	q.size, q.flags, q.addr = uint64(unsafe.Sizeof(*q)), flags, addr
	q.nameSize, q.name, q.buildIDSize, q.buildID = 0, 0, 0, 0
	if wantName {
		q.nameSize = nameRoom
		q.name = uint64(uintptr(unsafe.Pointer(&b.name)))
	}
	errno := b.call(fd, unsafe.Pointer(q))
	runtime.KeepAlive(b)
	return errno
}

// ioctl makes the call. A signal is no reason to give up: Go sends itself many.
func ioctl(fd int, arg unsafe.Pointer) unix.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlQuery, uintptr(arg))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// answerName returns the name of the last answer, without its NUL.
func (b *buffers) answerName() []byte {
	if n := b.q.nameSize; n > 1 && n <= nameRoom {
		return b.name[:n-1]
	}
	return nil
}
