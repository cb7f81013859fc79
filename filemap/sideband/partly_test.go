package sideband

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestPartlyMoved: an mremap of several mappings that fails at a later one (since Linux
// 6.17) has moved the first. It is not said that there is none where it went.
func TestPartlyMoved(t *testing.T) {
	library := mappedLibrary(t)
	b, _ := openBand(t, Options{})
	if len(b.Unseen()) > 0 {
		skip(t, "%v cannot be seen", b.Unseen())
	}
	from, to := reserve(t, 2*page), reserve(t, 2*page)
	f, err := os.Open(library)
	check(t, err)
	defer f.Close()
	_, err = unix.MmapPtr(int(f.Fd()), page, from, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
	check(t, err)
	check(t, unix.MunmapPtr(to, 2*page))
	fixed(t, unsafe.Add(from, page))
	drain(t, b)
	if _, err = unix.MremapPtr(from, 2*page, to, 2*page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err == nil {
		t.Skip("the kernel moves this")
	}
	drain(t, b)
	at := uint64(uintptr(to))
	_, ok := b.History.Lookup(os.Getpid(), at, b.Now())
	if v := b.History.Spaces.Space(os.Getpid()).At(b.Now()); !ok && v.Knows(at) {
		t.Error("there is none, as far as is known")
	}
}

// fixed maps a page that mremap does not move together with others: its faults go to a
// file descriptor.
func fixed(t *testing.T, at unsafe.Pointer) {
	t.Helper()
	const (
		api, apiCall           = 0xaa, 0xc018aa3f // UFFD_API, UFFDIO_API
		missing, registerCall  = 1, 0xc020aa00    // UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER
		private, readableWrite = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_FIXED, rw
	)
	_, err := unix.MmapPtr(-1, 0, at, page, readableWrite, private)
	check(t, err)
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		t.Skip("no userfaultfd here: ", errno)
	}
	t.Cleanup(func() { check(t, unix.Close(int(fd))) })
	hello := [3]uint64{api}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, apiCall, uintptr(unsafe.Pointer(&hello)))
	check(t, asError(errno))
	register := [4]uint64{uint64(uintptr(at)), page, missing}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, registerCall, uintptr(unsafe.Pointer(&register)))
	check(t, asError(errno))
}
