// Package procmem reads the memory of running processes, which stops nothing.
//
// A page of it may have to be supplied by the process (userfaultfd(2)) or by the
// server of a FUSE file system, which may never do so; a read waits for that long.
// So reading has a time limit.
package procmem

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/tracefs/privilege"
)

// Reader reads memory. It may be used by several goroutines. The zero value is not
// ready: see New.
type Reader struct {
	calls *bounded.Calls

	mu   sync.Mutex
	slow map[int]time.Time // processes whose memory did not come in time, and when
}

const (
	// slowAge is how long a process is not read after its memory did not come.
	slowAge = time.Minute
	maxSlow = 1 << 10
	// defaultWait is enough for memory that is on a disk. The trace goes on
	// meanwhile, and must not get lost.
	defaultWait = 200 * time.Millisecond
)

// New returns a Reader that waits this long for memory, 200 ms if 0.
func New(wait time.Duration) *Reader {
	if wait <= 0 {
		wait = defaultWait
	}
	return &Reader{calls: bounded.New(wait)}
}

// Part is memory at an address, and where it is to go.
type Part struct {
	Addr uint64
	To   []byte
}

// Read reads parts of the memory of a process, by the number of any of its threads,
// with process_vm_readv(2). It needs the right to trace the process (CAP_SYS_PTRACE).
// The error is the system call's, or bounded.ErrSlow, or bounded.ErrRefused for a
// process that was slow, and if too many were. The parts are as they were then.
func (r *Reader) Read(pid int, parts ...Part) error {
	if r.isSlow(pid) {
		return bounded.ErrRefused
	}
	c := newCopying(pid, parts)
	err := r.calls.Do(c.run)
	if errors.Is(err, bounded.ErrSlow) {
		r.note(pid)
	}
	if err != nil {
		return err
	}
	if c.err != nil {
		return c.err
	}
	at := 0
	for _, p := range parts {
		at += copy(p.To, c.buf[at:])
	}
	return nil
}

// copying is a call, which can go on without its caller.
type copying struct {
	pid    int
	remote []unix.RemoteIovec
	buf    []byte
	err    error
}

func newCopying(pid int, parts []Part) *copying {
	c, size := &copying{pid: pid, remote: make([]unix.RemoteIovec, len(parts))}, 0
	for i, p := range parts {
		c.remote[i] = unix.RemoteIovec{Base: uintptr(p.Addr), Len: len(p.To)}
		size += len(p.To)
	}
	c.buf = make([]byte, size)
	return c
}

func (c *copying) run() {
	defer privilege.Raise(privilege.Processes).Lower()
	local := []unix.Iovec{{Base: &c.buf[0]}}
	local[0].SetLen(len(c.buf))
	n, err := unix.ProcessVMReadv(c.pid, local, c.remote, 0)
	if err == nil && n != len(c.buf) {
		err = unix.EFAULT
	}
	if err != nil {
		c.err = fmt.Errorf("reading the memory of process %d at %#x: %w", c.pid, uint64(c.remote[0].Base), err)
	}
}

func (r *Reader) isSlow(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, slow := r.slow[pid]
	return slow && time.Since(since) < slowAge
}

func (r *Reader) note(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slow == nil || len(r.slow) >= maxSlow {
		r.slow = make(map[int]time.Time)
	}
	r.slow[pid] = time.Now()
}
