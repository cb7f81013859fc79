package procmap

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/tracefs/privilege"
)

// Opening /proc/PID/maps waits for exec_update_lock of the process (mm_access in
// kernel/fork.c), which execve(2) holds while it closes files (begin_new_exec in
// fs/exec.c). Closing a file of a file system in user space lasts as long as its
// server likes. So any user can keep a reader of all processes waiting, in a call
// that no signal ends.

// openWait is how long opening the memory of a process may take. A process in the
// middle of an exec gives it within microseconds, unless it is held up.
const openWait = 250 * time.Millisecond

// opening opens the memory of a process, in another goroutine.
type opening struct {
	proc string
	path []byte
	call func() // run, made once
	fd   int
	err  error
	// state: the side that first changes it from 0 decides which of them owns the
	// descriptor.
	state atomic.Int32
	back  atomic.Bool // run has ended
}

const (
	opened int32 = iota + 1
	givenUp
)

func newOpening(proc string) *opening {
	o := &opening{proc: proc}
	o.call = o.run
	return o
}

func (o *opening) run() {
	defer o.back.Store(true)
	defer privilege.RaiseIn(o.proc).Lower()
	o.fd, o.err = openPath(&o.path)
	if !o.state.CompareAndSwap(0, opened) && o.err == nil {
		_ = unix.Close(o.fd)
	}
}

// openMaps opens the memory of a process, and waits for it only so long. A process
// that was held up is not tried again before that call has come back.
func (r *Reader) openMaps(pid int) (int, error) {
	if o := r.held[pid]; o != nil {
		if o.state.Load() == givenUp && !o.back.Load() {
			return -1, errHeld
		}
		delete(r.held, pid)
	}
	o := r.opening
	if r.opening = nil; o == nil { // the last call may still go on
		o = newOpening(r.opt.Proc)
	}
	o.path = appendPath(o.path[:0], o.proc, pid, "maps")
	o.state.Store(0)
	o.back.Store(false)
	err := r.opens.Do(o.call)
	if err == nil {
		fd, err := o.fd, o.err
		r.opening = o // the call has come back: nothing else uses it
		return fd, err
	}
	if !o.state.CompareAndSwap(0, givenUp) {
		return o.fd, o.err
	}
	if err == bounded.ErrSlow {
		if r.held == nil {
			r.held = make(map[int]*opening)
		}
		r.held[pid] = o
	}
	return -1, errHeld
}
