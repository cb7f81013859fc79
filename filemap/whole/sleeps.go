package whole

import (
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// sleeps are the threads that a Lookout looks at while they sleep in other calls than
// futex: a thread that lets others go on may sleep while it holds their lock, and where it
// does is what they wait for. There is a budget, as a server's threads sleep all the time.
type sleeps struct {
	wakers [1 << 10]waker
	left   int // that may be looked at until filled
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
	// wakesFor is how long a thread counts that has let others go on.
	wakesFor = tracefs.Time(time.Second)
)

// wakes notes that a thread lets others go on.
func (s *sleeps) wakes(tid int32, t tracefs.Time) {
	s.wakers[uint32(tid)%uint32(len(s.wakers))] = waker{tid, t}
}

// may reports whether the sleep of a thread may be looked at, and counts it.
func (s *sleeps) may(tid int32, t tracefs.Time) bool {
	if w := &s.wakers[uint32(tid)%uint32(len(s.wakers))]; w.tid != tid || t-w.at > wakesFor {
		return false
	}
	const each = tracefs.Time(time.Second / sleepsPerSecond)
	if n := (t - s.filled) / each; n > 0 {
		s.left, s.filled = int(min(tracefs.Time(s.left)+n, sleepsAtOnce)), t
	}
	if s.left <= 0 {
		return false
	}
	s.left--
	return true
}

// sleeps begins the sleep of a thread, if it is one to be looked at. The event at hand is
// its switch: any later record of the thread ends the sleep, as a thread that has run leaves
// its CPU again before it can be read.
func (l *Lookout) sleeps(r *tracefs.Record, t tracefs.Time) {
	if !l.opt.Sleeps || l.task.State != 'S' && l.task.State != 'D' || !l.other.may(r.TID, t) {
		return
	}
	l.begin(wait{tid: r.TID, cpu: r.CPU, at: t, sleep: true, record: -1})
}

// sleepsIn reports whether a thread slept where its switch was when its stack was read.
func (w *wait) sleepsIn(s *blocked.Stack) bool {
	pc, _ := s.Regs.PC()
	return s.ABI == perf.ABI64 && s.Call != unix.SYS_FUTEX && pc == w.pc && s.From > w.at
}
