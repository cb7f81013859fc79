package whole

import (
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/syscalls"
)

// sleeps are the threads that a Lookout looks at while they sleep in other calls than
// futex: a thread that lets others go on may sleep while it holds their lock, and where it
// does is what they wait for. There is a budget, as a server's threads sleep all the time.
type sleeps struct {
	wakers [1 << 10]waker
	inside *[1 << 12]waker // the calls that threads are in; nil if only wakers are looked at
	left   int             // that may be looked at until filled
	filled tracefs.Time
}

// waker is a thread that has let others go on. It has the place of all threads with the
// same last bits.
type waker struct {
	tid int32
	at  tracefs.Time
}

const (
	// sleepsPerSecond is how many sleeps are looked at, some 60 us each, and sleepsAtOnce
	// how many of those together.
	sleepsPerSecond, sleepsAtOnce = 200, 20
	// everyPerSecond and everyAtOnce are the same where all threads are looked at.
	everyPerSecond, everyAtOnce = 2000, 200
	// wakesFor is how long a thread counts that has let others go on.
	wakesFor = tracefs.Time(time.Second)
)

// wakes notes that a thread lets others go on.
func (s *sleeps) wakes(tid int32, t tracefs.Time) {
	s.wakers[uint32(tid)%uint32(len(s.wakers))] = waker{tid, t}
}

// may reports whether the sleep of a thread may be looked at, and counts it. since is when the
// thread entered the call, if that counts.
func (s *sleeps) may(tid int32, t tracefs.Time) (since tracefs.Time, ok bool) {
	perSecond, atOnce := sleepsPerSecond, sleepsAtOnce
	w, since := &s.wakers[uint32(tid)%uint32(len(s.wakers))], t
	if s.inside != nil {
		w, perSecond, atOnce = s.enters(tid), everyPerSecond, everyAtOnce
		since = w.at
	}
	if w.tid != tid || s.inside == nil && t-w.at > wakesFor {
		return 0, false
	}
	each := tracefs.Time(int(time.Second) / perSecond)
	if n := (t - s.filled) / each; n > 0 {
		s.left, s.filled = int(min(tracefs.Time(s.left)+n, tracefs.Time(atOnce))), t
	}
	if s.left <= 0 {
		return 0, false
	}
	s.left--
	return since, true
}

// enters is the place of the call that a thread is in.
func (s *sleeps) enters(tid int32) *waker { return &s.inside[uint32(tid)%uint32(len(s.inside))] }

// call notes that a thread enters a call, or returns from one, if an event is one of
// raw_syscalls. A thread that is not traced makes none: it goes on unseen.
func (s *sleeps) call(body []byte, tid int32, t tracefs.Time, c *syscalls.RawCall) {
	switch {
	case s.inside == nil || len(body) < 4 || body[0] != 's' || body[3] != '_' || !syscalls.ParseRawCall(body, c):
	case c.Exit:
		*s.enters(tid) = waker{}
	default:
		*s.enters(tid) = waker{tid, t}
	}
}

// forget forgets the calls: returns may be missing.
func (s *sleeps) forget() {
	if s.inside != nil {
		clear(s.inside[:])
	}
}

// sleeps begins the sleep of a thread, if it is one to be looked at. The event at hand is
// its switch: any later record of the thread ends the sleep, as a thread that has run leaves
// its CPU again before it can be read.
func (l *Lookout) sleeps(r *tracefs.Record, t tracefs.Time) {
	if !l.opt.Sleeps || l.task.State != 'S' && l.task.State != 'D' {
		return
	}
	if since, ok := l.other.may(r.TID, t); ok {
		l.begin(wait{tid: r.TID, cpu: r.CPU, at: t, since: since, sleep: true, any: l.opt.Every, record: -1})
	}
}

// sleepsIn reports whether a thread slept where its switch was when its stack was read.
func (w *wait) sleepsIn(s *blocked.Stack) bool {
	pc, _ := s.Regs.PC()
	return s.ABI == perf.ABI64 && (w.any || s.Call != unix.SYS_FUTEX) && pc == w.pc && s.From > w.at
}
