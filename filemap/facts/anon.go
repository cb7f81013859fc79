package facts

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// anonNames gives memory of our own a name, which the kernel refuses with EINVAL
// if it was built without (man 2const PR_SET_VMA).
func anonNames() bool {
	size := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(mem) }()
	name := append([]byte("ustack"), 0)
	err = unix.Prctl(unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(size),
		uintptr(unsafe.Pointer(unsafe.SliceData(name))))
	runtime.KeepAlive(name)
	return err == nil
}
