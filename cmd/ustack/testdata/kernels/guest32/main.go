// Program guest32 is a program of 32 bits on a kernel of 64 bits: it waits, in
// functions that call each other.
package main

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:noinline
func wait(word *uint32) uintptr {
	t := unix.NsecToTimespec(int64(5 * time.Millisecond))
	_, _, e := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 128, 0, uintptr(unsafe.Pointer(&t)), 0, 0) // FUTEX_WAIT_PRIVATE
	return uintptr(e)
}

//go:noinline
func waits(word *uint32, n int) (sum uintptr) {
	for range n {
		sum += wait(word)
	}
	return sum
}

func main() {
	var word uint32
	waits(&word, 50)
}
