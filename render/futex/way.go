package futex

import "ustack/tracefs"

// way is how a thread got from its last sleep to where it is.
type way struct {
	// awake is when it was back from its last sleep that was no wait for a futex.
	awake tracefs.Time
	// ran is for how long it has run at most since its last sleep, until it left its CPU last:
	// the kernel does not record each switch from idle to a thread.
	ran tracefs.Time
	// all is for how long it is known to have run in all, until then.
	all tracefs.Time
	on  tracefs.Time // when it came onto a CPU last
	// asleep is set if it left that to sleep, elsewhere if that is no wait for a futex.
	asleep, elsewhere bool
	running           bool
}

func (w *way) leaves(t tracefs.Time, sleeps, futex bool) {
	if w.on > 0 {
		w.ran += max(t-w.on, 0)
	}
	if w.running {
		w.all += max(t-w.on, 0)
	}
	w.running, w.asleep, w.elsewhere = false, sleeps, sleeps && !futex
}

func (w *way) comes(t tracefs.Time) {
	if w.asleep {
		w.ran = 0
	}
	if w.elsewhere {
		w.awake = t
	}
	w.on, w.running, w.asleep, w.elsewhere = t, true, false, false
}

// wayTakes is for how long a thread runs at most from where it looks whether it has to wait
// to the call in which it does: a few instructions and page faults, and a hypervisor may take
// the CPU for a time slice.
const wayTakes = tracefs.Time(10e6)

// missed reports whether a thread that began to wait at a time, and waits still, can have
// looked before a wakeup whether it has to wait. If it can, it was on its way since: it has
// run, was preempted, or waited for a lock, and has not slept otherwise, as whatever it did
// in between, such as work, it looked after that. It has run for a short time only. Without
// the scheduler's events all is as short. A trace clock that counts no nanoseconds has no limit.
func (j *diagnosis) missed(b *Blocked, wakeup tracefs.Time) bool {
	a := j.rp.activity
	tl := a.known(b.TID)
	switch {
	case j.r.Ticks:
		return true
	case tl == nil || !a.whole || !tl.trusted() || tl.way.on == 0 || !tl.way.asleep:
		return b.Since-wakeup <= wayTakes
	}
	return tl.way.awake <= wakeup && tl.way.ran <= wayTakes
}

// keepsSignals reports whether a futex is of a condition variable of glibc up to 2.40, whose
// threads wait while the word is 0. A signal is only a call if a thread has begun to wait, and
// has changed the word by then: whoever comes later does not sleep. Programs that make their
// own calls by syscall(3) wait while a counter has not changed.
func (t *traits) keepsSignals() bool {
	return t.waits > 0 && t.zero == t.waits && t.bitset == t.waits && t.libc == t.waits
}
