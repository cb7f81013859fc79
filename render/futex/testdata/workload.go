// Command workload MODE does what workload.c does, as a Go program can: the runtime has
// goroutines wait for its own locks without a call of futex, so those whose threads are to
// wait for each other are bound to threads, and lock a word with the system call. They log
// what they did in the same words. The modes mutex and rwmutex use package sync instead.
//
// GODEBUG=asyncpreemptoff=1 is to be set: else threads are interrupted, which the log does
// not have.
//
// It begins when a line comes on standard input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const rounds = 30

// clock returns the time of a clock of the kernel.
func clock(id int) int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

const (
	monotonic = 1
	threadCPU = 3
)

var began, start = time.Now(), clock(monotonic)

// now returns CLOCK_MONOTONIC: package time reads it without a system call.
func now() int64 { return start + int64(time.Since(began)) }

type record struct {
	kind             string
	at               uintptr
	tid              int
	from, to, result int64
}

var (
	records = make([]record, 1<<16)
	used    atomic.Int64
)

func note(kind string, at uintptr, from, result int64) {
	if i := used.Add(1) - 1; i < int64(len(records)) {
		records[i] = record{kind, at, syscall.Gettid(), from, now(), result}
	}
}

// busy works for some time, and notes when it was not on a CPU.
func busy(d time.Duration) {
	for from, last := now(), now(); last < from+int64(d); {
		t := now()
		if t-last > 20_000 {
			note("gap", 0, last, 0)
		}
		last = t
	}
}

const (
	sleeping = 2
	syncing  = 3
	reading  = 4
)

// off notes a call that blocks: its number, and the time that it took on a CPU.
func off(what uintptr, call func()) {
	from, cpu := now(), clock(threadCPU)
	call()
	note("off", what, from, clock(threadCPU)-cpu)
}

// sleep has the thread sleep, not only the goroutine.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

func rest(d time.Duration) func() { return func() { off(sleeping, func() { sleep(d) }) } }

// call makes a call that has to work.
func call(nr, fd uintptr, data []byte) {
	_, _, err := syscall.Syscall(nr, fd, uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
	if err != 0 {
		must(err)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	file    int
	answers [2]int
	page    [1 << 16]byte
)

func store() {
	off(syncing, func() {
		for range 4 {
			call(syscall.SYS_WRITE, uintptr(file), page[:])
			call(syscall.SYS_FDATASYNC, uintptr(file), nil)
		}
	})
}

func ask() {
	off(reading, func() {
		var c [1]byte
		call(syscall.SYS_READ, uintptr(answers[0]), c[:])
	})
}

// A lock is a word: 0 if it is free, 2 if others wait.
type lock struct{ word atomic.Int32 }

func (l *lock) addr() uintptr { return uintptr(unsafe.Pointer(&l.word)) }

func (l *lock) futex(op, val uintptr) {
	const private = 128
	syscall.Syscall6(syscall.SYS_FUTEX, l.addr(), op|private, val, 0, 0, 0)
}

func (l *lock) take() {
	if l.word.CompareAndSwap(0, 1) {
		return
	}
	for held := l.word.Swap(2) == 0; !held; {
		from := now()
		l.futex(0, 2)
		held = l.word.Swap(2) == 0 // before anything else: it is the owner from its return on
		note("wait", l.addr(), from, 0)
	}
}

func (l *lock) release() {
	if l.word.Swap(0) == 2 {
		l.futex(1, 1)
	}
}

// hold does something with a lock.
func (l *lock) hold(inside func()) {
	l.take()
	from := now()
	inside()
	note("hold", l.addr(), from, 0)
	from = now()
	l.release()
	note("free", l.addr(), from, 0)
}

// threads runs goroutines that have a thread each.
func threads(n int, work func(id int)) {
	var all sync.WaitGroup
	for id := range n {
		all.Go(func() {
			runtime.LockOSThread()
			work(id)
		})
	}
	all.Wait()
}

var (
	one    = new(lock)
	nested = new([4]lock)
	stop   atomic.Bool
)

// filler keeps a CPU from being idle, and gives it to any other thread.
func filler(cpu int) {
	var mask [16]uint64
	mask[cpu/64] = 1 << (cpu % 64)
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	const idle = 5
	var none int32
	if _, _, err := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, idle, uintptr(unsafe.Pointer(&none))); err == 0 {
		rival(cpu)
	}
}

func rival(int) {
	for !stop.Load() {
	}
}

// beside runs threads beside others.
func beside(n int, work func(int), rest func()) {
	var done sync.WaitGroup
	done.Go(func() { threads(n, work) })
	rest()
	stop.Store(true)
	done.Wait()
}

func owner() {
	must(syscall.Pipe(answers[:]))
	go func() {
		runtime.LockOSThread()
		for !stop.Load() {
			sleep(3 * time.Millisecond)
			call(syscall.SYS_WRITE, uintptr(answers[1]), page[:1])
		}
	}()
	beside(runtime.NumCPU(), filler, func() {
		threads(3, func(id int) {
			for i := range rounds {
				one.hold(func() {
					[]func(){func() { busy(2 * time.Millisecond) }, rest(2 * time.Millisecond), store, ask}[(i+id)%4]()
					busy(200 * time.Microsecond)
				})
				sleep(500 * time.Microsecond)
			}
		})
	})
}

// pause leaves the CPUs to who takes the lock.
func pause() { sleep(500 * time.Microsecond) }

// contend has some threads do the same with a lock.
func contend(n int, inside, outside func()) {
	threads(n, func(int) {
		for range rounds {
			one.hold(inside)
			outside()
		}
	})
}

func works(d time.Duration) func() { return func() { busy(d) } }

func deep(from int) {
	if from == len(nested) {
		busy(400 * time.Microsecond)
		return
	}
	nested[from].hold(func() { deep(from + 1) })
}

// synced uses a lock of package sync: one goroutine holds it for long.
func synced(take, release func()) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range rounds {
				take()
				time.Sleep(time.Millisecond)
				release()
			}
		})
	}
	all.Wait()
}

func main() {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(32) // who returns from a call need not wait for others
	f, err := os.CreateTemp("/var/tmp", "futex-go-")
	must(err)
	must(os.Remove(f.Name()))
	file = int(f.Fd())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		must(err)
	}
	var mutex sync.Mutex
	var rw sync.RWMutex
	modes := map[string]func(){
		"go-owner":  owner,
		"go-convoy": func() { contend(6, works(200*time.Microsecond), works(20*time.Microsecond)) },
		"go-rests":  func() { contend(3, rest(700*time.Microsecond), pause) },
		"go-stores": func() { contend(3, store, pause) },
		"go-crowded": func() {
			beside(4, rival, func() { contend(4, works(500*time.Microsecond), works(300*time.Microsecond)) })
		},
		"go-deep": func() {
			threads(4, func(id int) {
				for range rounds {
					deep(id % 3)
					sleep(300 * time.Microsecond)
				}
			})
		},
		"go-mutex":   func() { synced(mutex.Lock, mutex.Unlock) },
		"go-rwmutex": func() { synced(rw.Lock, rw.Unlock) },
	}
	mode := modes[os.Args[1]]
	if mode == nil {
		os.Exit(2)
	}
	mode()
	out := bufio.NewWriter(os.Stdout)
	for i := range min(used.Load(), int64(len(records))) {
		r := records[i]
		fmt.Fprintf(out, "%s %#x %d %d %d %d\n", r.kind, r.at, r.tid, r.from, r.to, r.result)
	}
	must(out.Flush())
}
