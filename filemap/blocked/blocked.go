package blocked

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// Why there is no stack.
var (
	// ErrRunning: the thread runs, or did while its stack was read.
	ErrRunning = errors.New("the thread runs")
	// ErrEnded: there is no such thread any more.
	ErrEnded = errors.New("the thread has ended")
	// ErrKernel: the thread has no stack in user space.
	ErrKernel = errors.New("a thread of the kernel")
)

// DefaultWait is how long the reading of a stack may take. Memory that is in memory
// takes microseconds.
const DefaultWait = 50 * time.Millisecond

// MaxSize is the most that is read of a stack, in bytes.
const MaxSize = 1 << 20

// Options are how stacks are read.
type Options struct {
	// Proc is where the proc file system is mounted, /proc if empty. It must be of
	// our own PID namespace.
	Proc string
	// Wait is how long the reading of a stack may take, DefaultWait if 0.
	Wait time.Duration
}

// Reader reads stacks. It may be used by several goroutines.
type Reader struct {
	proc  string
	calls *bounded.Calls

	mu sync.Mutex
	// slow are the processes of which a reading has not come back.
	slow map[int]int
}

// NewReader returns a reader.
func NewReader(opt Options) *Reader {
	if opt.Proc == "" {
		opt.Proc = privilege.Proc
	}
	if opt.Wait == 0 {
		opt.Wait = DefaultWait
	}
	return &Reader{proc: opt.Proc, calls: bounded.New(opt.Wait), slow: make(map[int]int)}
}

// Supported reports whether the kernel shows where a thread waits
// (CONFIG_HAVE_ARCH_TRACEHOOK). proc is where the proc file system is mounted, /proc if
// empty.
func Supported(proc string) bool {
	if proc == "" {
		proc = privilege.Proc
	}
	_, err := os.Stat(proc + "/self/syscall")
	return err == nil
}

// Stack is the stack of a thread that did not run.
type Stack struct {
	TID, PID int
	// Started is when the thread started, in clock ticks since boot (field 22 of man 5
	// proc_pid_stat): with TID it names one thread.
	Started uint64
	// The thread waited all the time From and To, by CLOCK_MONOTONIC: it made no step
	// in user space.
	From, To tracefs.Time
	// Call is the number of the system call in which it waits, by its own ABI, and
	// Args are its arguments; -1 if it waits in none, but for a page, say.
	Call int64
	Args [6]uint64
	ABI  perf.ABI
	// Regs has the stack pointer, the program counter, and the registers that the
	// arguments are in. All others are unknown.
	Regs perf.Registers
	// Memory is from the stack pointer on: as much as was asked for, or up to where
	// nothing can be read.
	Memory []byte
}

// Read reads size bytes of the stack of a thread, at most MaxSize.
//
// errors.Is(err, ErrRunning), ErrEnded and ErrKernel say why there is none;
// bounded.ErrSlow that its memory does not answer, bounded.ErrRefused that too many
// others did not; fs.ErrPermission that we may not read it.
func (r *Reader) Read(tid, size int) (*Stack, error) {
	size = min(max(size, 0), MaxSize)
	var s *Stack
	var err error
	if r.isSlow(tid) {
		err = bounded.ErrSlow
	} else {
		type result struct {
			s   *Stack
			err error
		}
		done := make(chan result, 1)
		if err = r.calls.Do(func() {
			defer r.begin(tid)()
			s, err := r.read(tid, size)
			done <- result{s, err}
		}); err == nil {
			got := <-done
			s, err = got.s, got.err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the stack of thread %d: %w", tid, err)
	}
	return s, nil
}

// isSlow reports whether a reading of a thread has not come back.
func (r *Reader) isSlow(tid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slow[tid] > 0
}

// begin notes a reading, and returns what notes its end.
func (r *Reader) begin(tid int) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow[tid]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.slow[tid]--; r.slow[tid] <= 0 {
			delete(r.slow, tid)
		}
	}
}

// read reads a stack, for as long as that takes.
func (r *Reader) read(tid, size int) (*Stack, error) {
	t, err := r.open(tid)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.stack(size)
}

// stack reads the stack, and proves that the thread did not run meanwhile.
func (t *thread) stack(size int) (*Stack, error) {
	before, err := t.status()
	if err != nil {
		return nil, err
	}
	s := &Stack{TID: t.tid, PID: before.pid}
	if s.Started, err = t.started(); err != nil {
		return nil, err
	}
	call, err := t.call()
	if err != nil {
		return nil, err
	}
	s.From = perf.Now(unix.CLOCK_MONOTONIC)
	if s.ABI, err = t.abi(); err != nil {
		return nil, err
	}
	if s.Memory, err = memory(t.tid, call.sp, size); err != nil {
		return nil, err
	}
	s.To = perf.Now(unix.CLOCK_MONOTONIC)
	again, err := t.call()
	if err != nil {
		return nil, err
	}
	after, err := t.status()
	if err != nil {
		return nil, err
	}
	if again != call || after != before {
		return nil, ErrRunning
	}
	s.Call, s.Args = call.number, call.args
	s.Regs = call.registers(s.ABI)
	return s, nil
}

// memory reads memory of a thread's process, up to where it cannot be read: page by page,
// because a partly readable range is refused (man 2 process_vm_readv).
func memory(tid int, addr uint64, size int) ([]byte, error) {
	const page = 4096 // or a part of one
	b := make([]byte, size)
	var remote []unix.RemoteIovec
	for at := 0; at < size; {
		n := min(size-at, page-int((addr+uint64(at))%page))
		remote = append(remote, unix.RemoteIovec{Base: uintptr(addr) + uintptr(at), Len: n})
		at += n
	}
	read := 0
	for len(remote) > 0 { // at most IOV_MAX at once
		const most = 1024
		part := remote[:min(len(remote), most)]
		remote = remote[len(part):]
		want := 0
		for _, v := range part {
			want += v.Len
		}
		local := []unix.Iovec{{Base: &b[read]}}
		local[0].SetLen(want)
		n, err := unix.ProcessVMReadv(tid, local, part, 0)
		switch {
		case err == unix.EFAULT:
			n, err = 0, nil
		case err == unix.ESRCH:
			return nil, ErrEnded
		case err != nil:
			return nil, fmt.Errorf("reading memory at %#x: %w", addr, err)
		}
		read += n
		if n < want {
			break
		}
	}
	return b[:read], nil
}
