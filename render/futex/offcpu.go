package futex

import (
	"slices"

	"ustack/tracefs"
)

// offCPU are the threads that went off their CPU other than in a call: one may have just
// released a lock, and not made the call yet that wakes a waiter. Until it has, another
// thread may take the lock, release it and make that call.
//
// Invariants:
//   - list has a timeline with listed set, once, and no more than maxOffCPU.
type offCPU struct {
	list []*timeline
	// crowded is the last time at which some were too many.
	crowded tracefs.Time
}

const maxOffCPU = 1 << 8

// leftOutside notes that a thread goes off its CPU other than in a call.
func (a *activity) leftOutside(tl *timeline, t tracefs.Time) {
	if tl.left = t; tl.listed || a.open == 0 {
		return
	}
	if len(a.off.list) >= maxOffCPU {
		a.prune(t)
	}
	if len(a.off.list) >= maxOffCPU {
		a.off.crowded = t
		return
	}
	tl.listed, tl.since = true, t
	a.off.list = append(a.off.list, tl)
}

// silent notes that a thread makes no call any more.
func (a *activity) silent(tl *timeline) {
	if tl.listed {
		tl.listed = false
		a.off.list = slices.DeleteFunc(a.off.list, func(x *timeline) bool { return x == tl })
	}
}

// prune drops the threads that have made their call by now, if they had one to make.
func (a *activity) prune(t tracefs.Time) {
	list := a.off.list
	a.off.list = list[:0]
	for _, tl := range list {
		m := &tl.list[len(tl.list)-1]
		if tl.listed = !a.causes.inCall(m.cause) && (m.cause != causeRuns || t-m.from < a.takes()); tl.listed {
			a.off.list = append(a.off.list, tl)
		}
	}
	clear(list[len(a.off.list):])
}

// mayBeUnheard reports whether a thread may still be about to make a call that releases the
// lock of a call, which it released after other threads found that taken.
// If it has never called futex it counts with any only.
func (a *activity) mayBeUnheard(k *wake, any bool) bool {
	if a.off.crowded >= k.found {
		return true
	}
	a.prune(a.tasks.losses.End)
	for _, tl := range a.off.list {
		switch now := tl.now(); {
		case tl.since > k.at || tl.tid == k.th.tid:
		case tl.left < k.found && now != causeRuns && now != causeUnknown: // it has not run since
		case !any && a.tasks.threadOf(tl.tid) == nil:
		case a.mayShare(tl, k.th):
			return true
		}
	}
	return false
}

// mayShare reports whether a thread may be of the process of another one. If it has made no
// call, and a filter leaves out some of its switches, it is not: filters are for processes.
func (a *activity) mayShare(tl *timeline, th *thread) bool {
	p := th.proc.find()
	if x := a.tasks.threadOf(tl.tid); x != nil {
		return !distinct(x.proc.find(), p)
	}
	if !tl.trusted() {
		return false
	}
	if a.tasks.mappings == nil || p.tgid == tracefs.NoTID {
		return true
	}
	tgid, ok := a.tasks.mappings.Process(tl.tid)
	return !ok || tgid == p.tgid
}

// unheard returns the last time at which a thread of a process, other than one, may have
// released a lock and not made its call until a later time.
func (a *activity) unheard(th *thread, t tracefs.Time) (last tracefs.Time) {
	a.prune(t)
	last = a.off.crowded
	for _, tl := range a.off.list {
		x := a.tasks.threadOf(tl.tid)
		if tl.tid != th.tid && (x == nil || !distinct(x.proc.find(), th.proc.find())) {
			last = max(last, tl.left)
		}
	}
	return last
}
