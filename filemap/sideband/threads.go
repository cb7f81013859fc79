package sideband

import (
	"slices"
	"sync"
	"sync/atomic"

	"ustack/filemap/space"
	"ustack/tracefs"
)

// Threads knows which process a thread was of, over time. All methods may be
// called from any goroutine.
type Threads struct {
	mu sync.RWMutex
	// byTID are the times of each thread number, in order.
	byTID map[int][]span
	// live are the threads of each process that have not ended.
	live map[int][]int
	// past is how many of them have ended. Above limit those that ended first are
	// forgotten.
	past, limit int
	// recent are threads that were looked up, by number: each stack asks for
	// the same few.
	recent [recentThreads]atomic.Pointer[thread]
}

// maxPast bounds the ended lives of threads that are known, however few numbers they
// share: a log may have all the lives of a long trace. The kernel bounds the threads
// that have not ended.
const maxPast = 1 << 20

// recentThreads is how many threads have a place in recent.
const recentThreads = 1 << 8

// thread is the part of byTID for a number and the times from one to before
// another. It is never changed.
type thread struct {
	tid      int
	from, to tracefs.Time
	spans    []span
}

// span is the time in which a number was a thread of a process.
type span struct {
	pid      int
	from, to tracefs.Time
	// exact: it began at from and not before.
	exact bool
}

// newThreads returns an empty table.
func newThreads() *Threads {
	return &Threads{byTID: make(map[int][]span), live: make(map[int][]int), limit: maxPast}
}

// PID returns the process that a thread was of at a time. late means that the
// thread was first seen after that time, and may be another one.
func (th *Threads) PID(tid int, t tracefs.Time) (pid int, late, ok bool) {
	spans := th.around(tid, t)
	for i := range spans {
		s := &spans[i]
		switch {
		case t >= s.to:
		case t >= s.from:
			return s.pid, false, true
		case s.exact:
			return 0, false, false
		default:
			return s.pid, true, true
		}
	}
	return 0, false, false
}

// Life returns when the thread that had a number at a time began, and when it
// ended: space.Forever if it has not. ok is false if unknown, and for the first
// thread of a process, which may be another program by then.
func (th *Threads) Life(tid int, t tracefs.Time) (born, ended tracefs.Time, ok bool) {
	spans := th.around(tid, t)
	for i := range spans {
		if s := &spans[i]; s.from <= t && t < s.to {
			return s.from, s.to, s.exact && s.pid != tid
		}
	}
	return 0, 0, false
}

// around returns the spans of a number at a time: the first span that ends after
// it is there, and none that does not count.
func (th *Threads) around(tid int, t tracefs.Time) []span {
	k := th.recent[tid&(recentThreads-1)].Load()
	if k == nil || k.tid != tid || t < k.from || t >= k.to {
		k = th.recall(tid, t)
	}
	return k.spans
}

// recall takes a thread into recent, as it was around a time: not all lives of a
// number that has many.
func (th *Threads) recall(tid int, t tracefs.Time) *thread {
	const before, after = 2, 14
	th.mu.RLock()
	defer th.mu.RUnlock() // after which it may be changed
	list := th.byTID[tid]
	at := ends(list, t)
	first, last := max(0, at-before), min(len(list), at+after)
	k := &thread{tid: tid, to: space.Forever, spans: slices.Clone(list[first:last])}
	if first > 0 {
		k.from = list[first-1].to
	}
	if last < len(list) {
		k.to = list[last-1].to
	}
	th.recent[tid&(recentThreads-1)].Store(k)
	return k
}

// ends returns where in a list the first span is that ends after a time.
func ends(list []span, t tracefs.Time) int {
	i, _ := slices.BinarySearchFunc(list, t, func(s span, t tracefs.Time) int {
		if s.to <= t {
			return -1
		}
		return 1
	})
	return i
}

// changed takes a thread out of recent. It is called with mu locked.
func (th *Threads) changed(tid int) { th.recent[tid&(recentThreads-1)].Store(nil) }

// Len returns how many thread numbers are known.
func (th *Threads) Len() int {
	th.mu.RLock()
	defer th.mu.RUnlock()
	return len(th.byTID)
}

// known reports whether a thread number has any span.
func (th *Threads) known(tid int) bool {
	th.mu.RLock()
	defer th.mu.RUnlock()
	return len(th.byTID[tid]) > 0
}

// Live returns how many threads of a process have not ended.
func (th *Threads) Live(pid int) int {
	th.mu.RLock()
	defer th.mu.RUnlock()
	return len(th.live[pid])
}

// started notes that a process got a thread at t.
func (th *Threads) started(pid, tid int, t tracefs.Time) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.end(tid, t)
	th.begin(pid, tid, t, true)
}

// dying is for how long the kernel may list a thread whose end it has reported.
const dying = tracefs.Time(1e9)

// seen notes that a reading begun at t has found a thread. One that is known
// stays as it is; seen reports whether it is news.
func (th *Threads) seen(pid, tid int, t tracefs.Time) bool {
	th.mu.Lock()
	defer th.mu.Unlock()
	if list := th.byTID[tid]; len(list) > 0 {
		s := &list[len(list)-1]
		if s.from > t || s.pid == pid && (s.to == space.Forever || s.to > t-dying) {
			return false
		}
	}
	th.end(tid, t)
	th.begin(pid, tid, t, false)
	return true
}

// ended notes that a thread ended at t. last means that its process has no other,
// as far as its threads are known.
func (th *Threads) ended(pid, tid int, t tracefs.Time) (last bool) {
	th.mu.Lock()
	defer th.mu.Unlock()
	known := slices.Contains(th.live[pid], tid)
	th.end(tid, t)
	return len(th.live[pid]) == 0 && (known || tid == pid)
}

// execed notes that a process has executed a program at t: it then has one
// thread, whose number is its PID, whichever of them it was.
func (th *Threads) execed(pid int, t tracefs.Time) {
	th.mu.Lock()
	defer th.mu.Unlock()
	live := slices.Clone(th.live[pid])
	for _, tid := range live {
		if tid != pid {
			th.end(tid, t)
		}
	}
	if !slices.Contains(live, pid) {
		th.end(pid, t)
		th.begin(pid, pid, t, len(live) > 0)
	}
}

// gone notes that a process has no threads from t on.
func (th *Threads) gone(pid int, t tracefs.Time) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, tid := range slices.Clone(th.live[pid]) {
		th.end(tid, t)
	}
}

// processes returns the processes that have threads.
func (th *Threads) processes() []int {
	th.mu.RLock()
	defer th.mu.RUnlock()
	list := make([]int, 0, len(th.live))
	for pid := range th.live {
		list = append(list, pid)
	}
	slices.Sort(list)
	return list
}

// missing returns the threads of a process that a reading begun at t should
// have found and has not. found is in order.
func (th *Threads) missing(pid int, found []int, t tracefs.Time) []int {
	th.mu.RLock()
	defer th.mu.RUnlock()
	var list []int
	for _, tid := range th.live[pid] {
		spans := th.byTID[tid]
		if _, ok := slices.BinarySearch(found, tid); !ok && spans[len(spans)-1].from <= t {
			list = append(list, tid)
		}
	}
	return list
}

// begin adds a thread.
func (th *Threads) begin(pid, tid int, t tracefs.Time, exact bool) {
	defer th.changed(tid)
	list := th.byTID[tid]
	if n := len(list); n > 0 {
		if list[n-1].to == space.Forever {
			return // this is older news than that one
		}
		t = max(t, list[n-1].to)
	}
	th.byTID[tid] = append(list, span{pid: pid, from: t, to: space.Forever, exact: exact})
	th.live[pid] = append(th.live[pid], tid)
}

// shed forgets the first half of the threads that have ended.
func (th *Threads) shed() {
	ended := make([]tracefs.Time, 0, th.past)
	for _, list := range th.byTID {
		for i := range list {
			if list[i].to != space.Forever {
				ended = append(ended, list[i].to)
			}
		}
	}
	slices.Sort(ended)
	th.expire(ended[len(ended)/2])
}

// end ends a thread if it is there.
func (th *Threads) end(tid int, t tracefs.Time) {
	defer th.changed(tid)
	list := th.byTID[tid]
	if len(list) == 0 || list[len(list)-1].to != space.Forever {
		return
	}
	s := &list[len(list)-1]
	if t < s.from && s.exact {
		return // it is another one that ended
	}
	if n := len(list); n > 1 {
		t = max(t, list[n-2].to) // the one before ends first
	}
	s.from, s.to = min(s.from, t), t
	live := th.live[s.pid]
	if i := slices.Index(live, tid); i >= 0 {
		live = slices.Delete(live, i, i+1)
	}
	if len(live) == 0 {
		delete(th.live, s.pid)
	} else {
		th.live[s.pid] = live
	}
	if th.past++; th.past > th.limit {
		th.shed()
	}
}

// Expire forgets what ended before a time.
func (th *Threads) Expire(before tracefs.Time) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.expire(before)
}

// expire is Expire with mu locked.
func (th *Threads) expire(before tracefs.Time) {
	for tid, list := range th.byTID {
		old := ends(list, before)
		if old > 0 {
			th.changed(tid)
			th.past -= old
		}
		switch old {
		case 0:
		case len(list):
			delete(th.byTID, tid)
		default:
			th.byTID[tid] = slices.Clone(list[old:])
		}
	}
}
