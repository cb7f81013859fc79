package futex

import (
	"slices"

	"ustack/tracefs"
)

// takes is how long a thread runs at most between its return from a call that waits for a
// lock and the instruction that takes it, and between the one that releases it and its call
// that wakes a waiter. Both are some instructions; an interrupt may come between them.
const (
	takes      = tracefs.Time(20e3)
	takesTicks = tracefs.Time(1 << 17) // in ticks of a clock: no CPU counts 6.5 GHz
)

// takes returns how long a thread runs at most before it has taken a lock, in the unit of
// the trace.
func (a *activity) takes() tracefs.Time {
	if a.tasks.losses.Ticks {
		return takesTicks
	}
	return takes
}

// taken returns from when on a thread surely owns a lock, which it takes with some of the
// first instructions that it runs after a time: where it did not run for long enough, as it
// was preempted, it may not have taken it. It is to if that is unknown. proof is since when
// that was seen.
func (a *activity) taken(tid int32, from, to tracefs.Time) (at, proof tracefs.Time) {
	left, ran, proof := a.takes(), to, from
	tl := a.known(tid)
	if tl == nil {
		return to, proof
	}
	for i := tl.index(from); i < len(tl.list) && tl.list[i].from < to; i++ {
		m := &tl.list[i]
		begin, end := max(m.from, from), min(tl.end(i), to)
		if end < begin || end == begin && m.cause != causeRuns {
			continue
		}
		proof = min(proof, m.proof)
		switch {
		case m.cause == causeRuns && end-begin >= left:
			return begin + left, proof
		case m.cause == causeRuns:
			left -= end - begin
			ran = end
		case a.causes.inCall(m.cause):
			return min(ran, begin), proof
		}
	}
	return to, proof
}

// kept returns until when a thread surely owned a lock, which it released with some of the
// last instructions that it ran before a time. It is from if that is unknown.
func (a *activity) kept(tid int32, from, to tracefs.Time) (at, proof tracefs.Time) {
	left, ran, proof := a.takes(), from, to
	tl := a.known(tid)
	if tl == nil {
		return from, proof
	}
	for i := len(tl.list) - 1; i >= 0 && tl.end(i) >= from; i-- {
		m := &tl.list[i]
		begin, end := max(m.from, from), min(tl.end(i), to)
		if end < begin || end == begin && m.cause != causeRuns {
			continue
		}
		proof = min(proof, m.proof)
		switch {
		case m.cause == causeRuns && end-begin >= left:
			return end - left, proof
		case m.cause == causeRuns:
			left -= end - begin
			ran = begin
		case a.causes.inCall(m.cause):
			return max(ran, end), proof
		}
	}
	return from, proof
}

// index returns the moment of a thread that lasts at a time, or the first one.
func (tl *timeline) index(t tracefs.Time) int {
	at, _ := slices.BinarySearchFunc(tl.list, t, func(m moment, t tracefs.Time) int {
		if m.from <= t {
			return -1
		}
		return 1
	})
	return max(at-1, 0)
}

// end returns when a moment ends.
func (tl *timeline) end(i int) tracefs.Time {
	if i+1 < len(tl.list) {
		return tl.list[i+1].from
	}
	return tl.seen
}

// sleptAt returns when a thread that waits for a futex since a time went to sleep: the
// kernel had found the futex as the thread expected it. ok is false if it has not.
func (a *activity) sleptAt(tid int32, since tracefs.Time) (at, proof tracefs.Time, ok bool) {
	tl := a.known(tid)
	if tl == nil {
		return 0, 0, false
	}
	for i := tl.index(since); i < len(tl.list); i++ {
		if m := &tl.list[i]; m.from >= since && m.cause >= causeFutex {
			return m.from, min(m.proof, since), true
		}
	}
	return 0, 0, false
}
