// Command gowork is the workload of the live tests for machines without a C
// compiler: the same functions, with the frame pointers that Go keeps.
package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

var (
	word uint32
	sink int
)

//go:noinline
func wait_inner() {
	t := syscall.NsecToTimespec(int64(time.Millisecond))
	const waitPrivate = 0x80
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), waitPrivate, 0, uintptr(unsafe.Pointer(&t)), 0, 0)
	sink++
}

//go:noinline
func wait_middle() {
	wait_inner()
	sink++
}

//go:noinline
func wait_outer() {
	wait_middle()
	sink++
}

func main() {
	if len(os.Args) < 3 || os.Args[1] != "storm" {
		wait_outer()
		return
	}
	n, _ := strconv.Atoi(os.Args[2])
	for range n {
		if err := exec.Command(os.Args[0], "once").Run(); err != nil {
			os.Exit(1)
		}
	}
}
