package procmem

import (
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
)

// TestRead reads our own memory.
func TestRead(t *testing.T) {
	one, two := []byte("one"), []byte("second")
	var a [3]byte
	var b [6]byte
	r := New(time.Minute)
	at := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
	if err := r.Read(os.Getpid(), Part{at(one), a[:]}, Part{at(two), b[:]}); err != nil || string(a[:])+string(b[:]) != "onesecond" {
		t.Errorf("%q, %q, %v", a, b, err)
	}
	if err := r.Read(os.Getpid(), Part{at(one), a[:]}, Part{4096, b[:]}); !errors.Is(err, unix.EFAULT) {
		t.Errorf("what is not mapped: %v", err)
	}
}

// never is memory of this process that is not there, and does not come.
func never(t *testing.T) []byte {
	t.Helper()
	// Without the right to faults of the kernel's own (UFFD_USER_MODE_ONLY), reading
	// the memory is an error at once.
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		t.Skipf("no userfaultfd for us: %v", errno)
	}
	t.Cleanup(func() { _ = unix.Close(int(fd)) }) // then the waiter gets memory
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	// include/uapi/linux/userfaultfd.h: UFFDIO_API, UFFDIO_REGISTER.
	const doAPI, doRegister, missing = 0xc018aa3f, 0xc020aa00, 1
	api := struct{ api, features, ioctls uint64 }{api: 0xaa}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, doAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		t.Skipf("no userfaultfd: %v", errno)
	}
	register := struct{ start, size, mode, ioctls uint64 }{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(len(mem)), missing, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, doRegister, uintptr(unsafe.Pointer(&register))); errno != 0 {
		t.Skipf("userfaultfd takes no memory: %v", errno)
	}
	return mem
}

// silent is memory of this process of a file whose server gives no answer.
func silent(t *testing.T) []byte {
	t.Helper()
	s := fusetest.Start(t, make([]byte, 1<<20))
	fd, err := unix.Open(s.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, 1<<20, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	s.Silence()
	return mem
}

// TestMemoryThatNeverComes: it keeps no reader, and is not tried again.
func TestMemoryThatNeverComes(t *testing.T) {
	for what, make := range map[string]func(*testing.T) []byte{"userfaultfd": never, "FUSE": silent} {
		t.Run(what, func(t *testing.T) {
			mem := make(t)
			r := New(50 * time.Millisecond)
			var b [8]byte
			for _, want := range []error{bounded.ErrSlow, bounded.ErrRefused} {
				if err := r.Read(os.Getpid(), Part{uint64(uintptr(unsafe.Pointer(&mem[0]))), b[:]}); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
		})
	}
}
