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

// patience makes calls about processes, and waits for each only so long. A process that
// was held up is not asked again before that call has come back.
type patience struct {
	proc    string
	calls   *bounded.Calls
	opening *opening             // used again for each call that comes back
	looking *look                // the same
	held    map[int]*atomic.Bool // of calls that were given up, by PID: whether they have come back
}

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

// openMaps opens the memory of a process.
func (p *patience) openMaps(pid int) (int, error) {
	if p.isHeld(pid) {
		return -1, errHeld
	}
	o := p.opening
	if p.opening = nil; o == nil { // the last call may still go on
		o = newOpening(p.proc)
	}
	o.path = appendPath(o.path[:0], o.proc, pid, "maps")
	o.state.Store(0)
	o.back.Store(false)
	err := p.calls.Do(o.call)
	if err == nil {
		fd, err := o.fd, o.err
		p.opening = o // the call has come back: nothing else uses it
		return fd, err
	}
	if !o.state.CompareAndSwap(0, givenUp) {
		return o.fd, o.err
	}
	return -1, p.hold(pid, err, &o.back)
}

// isHeld reports whether a call about a process has not come back.
func (p *patience) isHeld(pid int) bool {
	if back := p.held[pid]; back != nil && !back.Load() {
		return true
	}
	delete(p.held, pid)
	return false
}

// hold notes why a call about a process was given up, and what will be true once it has
// come back.
func (p *patience) hold(pid int, why error, back *atomic.Bool) error {
	if why == bounded.ErrSlow {
		if p.held == nil {
			p.held = make(map[int]*atomic.Bool)
		}
		p.held[pid] = back
	}
	return errHeld
}

// look is a small file of a process, or a link, being read. Since Linux 6.18 these can
// wait as long as opening its memory does (ptrace_may_access).
type look struct {
	proc string
	link bool
	path []byte
	call func() // run, made once
	text [4096]byte
	n    int
	err  error
	back atomic.Bool
}

func (l *look) run() {
	defer l.back.Store(true)
	defer privilege.RaiseIn(l.proc).Lower()
	if l.link {
		l.n, l.err = readLink(&l.path, l.text[:])
		return
	}
	fd, err := openPath(&l.path)
	if l.err = err; err == nil {
		l.n, l.err = readFD(fd, l.text[:])
		closeFD(fd)
	}
}

// look reads what a file in the directory of a process has, or where a link there leads
// to. The text is valid until the next look.
func (p *patience) look(pid int, name string, link bool) ([]byte, error) {
	if p.isHeld(pid) {
		return nil, errHeld
	}
	l := p.looking
	if p.looking = nil; l == nil { // the last one may still go on
		l = &look{proc: p.proc}
		l.call = l.run
	}
	l.path, l.link = appendPath(l.path[:0], l.proc, pid, name), link
	l.back.Store(false)
	if err := p.calls.Do(l.call); err != nil {
		return nil, p.hold(pid, err, &l.back)
	}
	p.looking = l // the call has come back: nothing else uses it
	return l.text[:l.n], l.err
}
