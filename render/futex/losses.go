package futex

import (
	"iter"

	"ustack/tracefs"
)

// losses knows the time that a trace spans, which parts of it were lost, and what a
// thread can have done unseen then. It is the lowest part of an Analysis: the others
// ask it. It changes only two of their fields, thread.hidden and lock.doubt.
//
// Invariants:
//   - start ≤ end if there was a record.
//   - Gaps are in order and do not overlap; there are no more than maxGaps.
//   - No CPU's last record is after end, unless records of it were lost since.
//   - No span ends before it begins, and no more than maxSpans wait.
//   - hidden.most has the largest parts of hidden.all, no more than maxHidden.
//   - Times that were hidden are not negative.
type losses struct {
	gaps  Gaps
	spans spans
	cpus  [][]cpu // by input

	start, end tracefs.Time
	until      tracefs.Time // the trace is whole up to then
	begun      bool
	ticks      bool         // the clock does not count nanoseconds
	refused    uint64       // records, by the kernel
	hidden     hidden       // what loss can hide besides what was seen
	broken     tracefs.Time // what calls can hide of which only the entry or the return is there

	// settled takes the time before which no gap begins that is not known yet.
	settled func(tracefs.Time)
	// sameLock takes a span in which nothing was lost, so that the waiter's lock is
	// proven to be the waker's. lostTime takes each time of loss, nil if that is not
	// wanted.
	sameLock func(*span)
	lostTime func(*LostTime)
}

// reached notes the time of a record.
func (ls *losses) reached(t tracefs.Time) { ls.end = max(ls.end, t) }

// beginning returns when the trace begins, for a caller with a record of time t,
// which may be the first one.
func (ls *losses) beginning(t tracefs.Time) tracefs.Time {
	if !ls.begun {
		return t
	}
	return ls.start
}

// gapEnded passes a time in which records were lost.
func (ls *losses) gapEnded(g LostTime) {
	if ls.lostTime != nil {
		g.To = max(g.From, g.To)
		ls.lostTime(&g)
	}
}

// since returns when the last loss of a CPU began.
func (ls *losses) since(c *cpu) tracefs.Time {
	if c.seen {
		return c.last
	}
	return ls.start
}

// openGaps returns the beginnings of the gaps that no record has ended.
func (ls *losses) openGaps() iter.Seq[tracefs.Time] {
	return func(yield func(tracefs.Time) bool) {
		if ls.spans.known {
			return
		}
		for s := range ls.cpus {
			for n := range ls.cpus[s] {
				if c := &ls.cpus[s][n]; c.lost && !yield(ls.since(c)) {
					return
				}
			}
		}
	}
}

// closeGaps ends the gaps that no record has ended, at the end of the trace.
func (ls *losses) closeGaps() {
	for from := range ls.openGaps() {
		ls.gaps.add(from, ls.end)
		ls.spans.disturbed(from)
	}
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			if c := &ls.cpus[s][n]; c.lost {
				ls.gapEnded(LostTime{s, int32(n), ls.since(c), ls.end, c.records})
				c.lost = false
			}
		}
	}
}

// settleAll assesses all spans: the trace has ended.
func (ls *losses) settleAll() { ls.settle(ls.end + 1) }

// unknownWait notes a call of unknown end or beginning, all of which a thread may have
// waited.
func (ls *losses) unknownWait(th *thread, d tracefs.Time) {
	th.hidden += d
	ls.broken += d
}
