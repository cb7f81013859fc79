// Program remaps has different files at one address, one after the other, and calls the code
// in them: getpgid(TAG), with the number of the file as the tag. So each event has the truth
// in its argument: the innermost frame is in that file.
//
//	remaps DIRECTORY ROUNDS GENERATIONS
//
// makes the files, does so many rounds and executes itself anew, with one generation less.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

const (
	files = 8
	// size is that of a file and of its mapping.
	size = 8 * 4096
	// tag is what is called with for file 0.
	tag = 70_000_000
	// places are where threads have files: each has some of its own.
	places, each = 4, 3
	base, far    = uintptr(0x6100_0000_0000), uintptr(1 << 30)
	fixed        = syscall.MAP_PRIVATE | syscall.MAP_FIXED
	code         = syscall.PROT_READ | syscall.PROT_EXEC
	mayMove      = 1 // MREMAP_MAYMOVE
	moveFixed    = 2 // MREMAP_FIXED
)

func main() {
	dir := os.Args[1]
	rounds, err1 := strconv.Atoi(os.Args[2])
	generations, err2 := strconv.Atoi(os.Args[3])
	if err1 != nil || err2 != nil {
		fail("remaps DIRECTORY ROUNDS GENERATIONS")
	}
	var fds [files]int
	for i := range fds {
		fds[i] = open(filepath.Join(dir, fmt.Sprintf("code%d", i)), i)
	}
	share := rounds / max(generations, 1)
	var all sync.WaitGroup
	for place := range places {
		all.Go(func() {
			runtime.LockOSThread()
			w := worker{fds: fds, at: base + uintptr(place)*far, rng: rand.New(rand.NewPCG(uint64(place), uint64(generations))),
				calm: generations%2 == 0}
			for range share / places {
				w.round()
			}
		})
	}
	if generations%4 < 2 {
		go hog()
	}
	all.Wait()
	if generations > 1 {
		next := []string{os.Args[0], dir, strconv.Itoa(rounds - share), strconv.Itoa(generations - 1)}
		fail(syscall.Exec("/proc/self/exe", next, os.Environ()))
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// hog keeps others from changing the memory for some time, again and again, so that their calls
// take long.
func hog() {
	const large = 16 << 20
	for {
		at := must(syscall.SYS_MMAP, 0, large, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE, ^uintptr(0), 0)
		must(syscall.SYS_MUNMAP, at, large, 0, 0, 0, 0)
	}
}

// open makes a file of code.
func open(name string, n int) int {
	text := make([]byte, size)
	for at := 0; at < size; at += 4096 {
		copy(text[at:], program(tag+uint32(n)))
	}
	if _, err := os.Stat(name); err != nil { // or its build would change while it is mapped
		if err := os.WriteFile(name, text, 0o700); err != nil {
			fail(err)
		}
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		fail(err)
	}
	return fd
}

// worker is a thread that has files at addresses of its own.
type worker struct {
	fds [files]int
	at  uintptr
	rng *rand.Rand
	has [each]bool
	// calm is for long times between two rounds.
	calm bool
}

// round replaces a file, calls its code, and that of the other files that are there.
func (w *worker) round() {
	i := w.rng.IntN(each)
	w.replace(i)
	for range w.rng.IntN(6) {
		w.call(i)
	}
	for other := range each {
		if w.rng.IntN(2) == 0 {
			w.call(other)
		}
	}
	if !w.calm && w.rng.IntN(4) > 0 {
		return
	}
	for range 4 { // a reader can keep up
		_ = syscall.Nanosleep(&syscall.Timespec{Nsec: w.rng.Int64N(3e6)}, nil)
		w.call(i)
		w.call(w.rng.IntN(each))
	}
}

func (w *worker) place(i int) uintptr { return w.at + uintptr(i)*size*2 }

// call calls the code in one of the pages.
func (w *worker) call(i int) {
	if !w.has[i] {
		return
	}
	at := w.place(i) + uintptr(w.rng.IntN(size/4096))*4096
	entry := &at
	(*(*func())(unsafe.Pointer(&entry)))()
}

// replace has another file at a place, in one of several ways.
func (w *worker) replace(i int) {
	at, fd := w.place(i), w.fds[w.rng.IntN(files)]
	switch w.rng.IntN(6) {
	case 0: // it goes first
		must(syscall.SYS_MUNMAP, at, size, 0, 0, 0, 0)
		must(syscall.SYS_MMAP, at, size, code, syscall.MAP_PRIVATE, uintptr(fd), 0)
	case 1: // it is moved there
		from := must(syscall.SYS_MMAP, 0, size, code, syscall.MAP_PRIVATE, uintptr(fd), 0)
		must(syscall.SYS_MREMAP, from, size, size, mayMove|moveFixed, at, 0)
	case 2: // it becomes code there
		must(syscall.SYS_MMAP, at, size, syscall.PROT_READ, fixed, uintptr(fd), 0)
		must(syscall.SYS_MPROTECT, at, size, code, 0, 0, 0)
	case 3: // one half after the other
		must(syscall.SYS_MMAP, at, size/2, code, fixed, uintptr(fd), 0)
		must(syscall.SYS_MMAP, at+size/2, size/2, code, fixed, uintptr(fd), size/2)
	case 4: // with data between
		must(syscall.SYS_MMAP, at, size, syscall.PROT_READ, fixed|syscall.MAP_ANON, ^uintptr(0), 0)
		must(syscall.SYS_MMAP, at, size, code, fixed, uintptr(fd), 0)
	default:
		must(syscall.SYS_MMAP, at, size, code, fixed, uintptr(fd), 0)
	}
	w.has[i] = true
}

func must(nr, a, b, c, d, e, f uintptr) uintptr {
	r, _, errno := syscall.Syscall6(nr, a, b, c, d, e, f)
	if errno != 0 {
		fail(fmt.Errorf("system call %d(%#x, %#x, %#x, %#x): %w", nr, a, b, c, d, errno))
	}
	return r
}
