package futex

import (
	"ustack/filemap/resolve"
	"ustack/render/lost"
	"ustack/tracefs"
)

// losses knows the time that a trace spans, which parts of it were lost, and what a
// thread can have done unseen then. It is the lowest part of an Analysis: the others
// ask it. It changes only two of their fields, thread.hidden and lock.doubt.
//
// Invariants:
//   - No span ends before it begins, and no more than maxSpans wait.
//   - hidden.most has the largest parts of hidden.all, no more than maxHidden.
//   - Times that were hidden are not negative.
type losses struct {
	lost.Losses
	spans   spans
	until   tracefs.Time // the trace is whole up to then
	refused uint64       // records, by the kernel
	hidden  hidden       // what loss can hide besides what was seen
	broken  tracefs.Time // what calls can hide of which only the entry or the return is there

	// settled takes the time before which no gap begins that is not known yet.
	settled func(tracefs.Time)
	// sameLock takes a span in which nothing was lost, so that the waiter's lock is
	// proven to be the waker's.
	sameLock func(*span)
}

// reached notes the time of a record.
func (ls *losses) reached(t tracefs.Time) { ls.End = max(ls.End, t) }

// settleAll assesses all spans: the trace has ended.
func (ls *losses) settleAll() { ls.settle(ls.End + 1) }

// unknownWait notes a call of unknown end or beginning, all of which a thread may have
// waited.
func (ls *losses) unknownWait(th *thread, d tracefs.Time) {
	th.hidden += d
	ls.broken += d
}

// settleUp brings the CPUs up to date, and settles spans that no later gap can
// reach.
func (ls *losses) settleUp(h *resolve.Pending) {
	ls.SettleTimes(h)
	ls.settle(ls.Low())
}

// Gaps and LostTime are those of package lost.
type (
	Gaps     = lost.Gaps
	LostTime = lost.Time
)
