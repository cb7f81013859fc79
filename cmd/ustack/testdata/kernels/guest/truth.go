package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tagged marks the futex calls whose stacks are known. Bits 8 to 15 say from which
// copy of this program they come.
const tagged = 0x58000000

// copies are the same program in files of their own: an address alone does not say
// in which of them it lies.
var copies = []string{"/disk/guest", "/disk/copy1", "/disk/copy2", "/tmp/copy3"}

// chain is what calls the system call, from the inside.
var chain = [...]string{"main.innermost", "main.middle", "main.outermost"}

//go:noinline
func innermost(word *uint32, tag uintptr) uintptr {
	n, _, _ := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 129, 1, 0, 0, tag) // FUTEX_WAKE_PRIVATE
	return n + 1
}

//go:noinline
func middle(word *uint32, tag uintptr) uintptr { return innermost(word, tag) + 1 }

//go:noinline
func outermost(word *uint32, tag uintptr) uintptr { return middle(word, tag) + 1 }

// truth makes calls that say where they come from.
func truth(copy, calls int) {
	runtime.LockOSThread()
	var word uint32
	for range calls {
		outermost(&word, tagged|uintptr(copy)<<8)
	}
}

// life is a program that makes calls and then becomes the next copy of itself, so
// often: what is mapped at its addresses is another file each time.
func life(args []string) error {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return err
		}
	}
	copy, calls, execs := n[0], n[1], n[2]
	truth(copy, calls)
	if execs == 0 {
		return nil
	}
	next := (copy + 1) % len(copies)
	return unix.Exec(copies[next], []string{copies[next], "life", strconv.Itoa(next), args[1], strconv.Itoa(execs - 1)}, nil)
}

// storm starts many short lives, four at a time.
func storm(rounds int) error {
	free := make(chan struct{}, 4)
	errs := make(chan error, rounds)
	for i := range rounds {
		free <- struct{}{}
		go func() {
			copy := i % len(copies)
			errs <- exec.Command(copies[copy], "life", strconv.Itoa(copy), "4", "3").Run()
			<-free
		}()
	}
	for range rounds {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// makeCopies makes the copies.
func makeCopies() error {
	b, err := os.ReadFile(copies[0])
	if err != nil {
		return err
	}
	for _, name := range copies[1:] {
		if err := os.WriteFile(name, b, 0o755); err != nil {
			return fmt.Errorf("making a copy: %w", err)
		}
	}
	return nil
}
