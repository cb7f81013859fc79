package record

import (
	"ustack/render/tally"
	"ustack/tracefs"
)

// lockID is a futex of a process, or of all if the trace does not say which one.
type lockID struct {
	tgid int32
	addr uint64
}

// usual is how long waits for a lock have been.
type usual struct {
	waits tally.Durations
	p99   tracefs.Time // of the waits before the last refresh, 0 if they were too few
	next  int64        // how many waits there are at the next one
}

// usually keeps that of all locks.
type usually map[lockID]*usual

const (
	// maxUsual bounds the locks that are kept.
	maxUsual = 2048
	// leastWaits are needed for a percentile.
	leastWaits = 100
)

// add adds a wait, and returns the 99th percentile of those before it, up to an eighth of them
// left out; 0 if they were too few.
func (u usually) add(id lockID, t tracefs.Time) tracefs.Time {
	l := u[id]
	if l == nil {
		if len(u) >= maxUsual {
			return 0
		}
		l = &usual{next: leastWaits}
		u[id] = l
	}
	if n := l.waits.Count; n >= l.next {
		l.p99, l.next = l.waits.Quantile(quantile), n+n/8
	}
	l.waits.Add(t)
	return l.p99
}

// quantile is what triggers compare with.
const quantile = 0.99
