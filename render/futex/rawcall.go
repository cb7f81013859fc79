package futex

import (
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// rawCall is the call that a thread is in by raw_syscalls, which has numbers only. A
// thread shows by its calls of futex what they mean: a process may be one of 32 bits.
type rawCall struct {
	nr      int32 // if it is inside
	in      syscalls.Table
	at      tracefs.Time // of its last record
	seen    bool
	inside  bool
	futex   bool         // it has entered futex, by an event that says so,
	futexAt tracefs.Time // then
	// whole is set if its last entry had a return.
	whole bool
}

// named reports whether it is known which call the thread is in.
func (r *rawCall) named() bool { return r.inside && r.whole && r.in != syscalls.NoTable }

// outside reports whether the thread is in no call.
func (r *rawCall) outside() bool { return r.seen && r.whole && !r.inside }

// pairing is how far apart the two events of one entry are at most.
const pairing = tracefs.Time(100e3)

// raw takes an event of raw_syscalls.
func (a *activity) raw(tid, cpu int32, t tracefs.Time, nr int32, exit bool) {
	tl := a.line(tid)
	if tl == nil || !a.whole {
		return
	}
	a.runs(tl, cpu, t)
	r := &tl.raw
	if exit {
		r.whole, r.futex = r.inside && r.nr == nr, false
	} else {
		r.whole = r.whole && !r.inside
	}
	r.seen, r.inside, r.nr, r.at = true, !exit, nr, t
	r.pair()
}

// futex takes an entry into futex, or a return, by an event of its own.
func (a *activity) futex(tid int32, t tracefs.Time, enter bool) {
	if tl := a.line(tid); tl != nil {
		tl.raw.enterFutex(t, enter)
	}
}

// enterFutex notes that a thread has entered futex, or has returned.
func (r *rawCall) enterFutex(t tracefs.Time, enter bool) {
	r.futex, r.futexAt = enter, t
	r.pair()
}

// pair learns the table from the two events of an entry into futex.
func (r *rawCall) pair() {
	if r.futex && r.inside && r.in == syscalls.NoTable && max(r.at, r.futexAt)-min(r.at, r.futexAt) < pairing {
		r.in = syscalls.TableOf(r.nr)
	}
}
