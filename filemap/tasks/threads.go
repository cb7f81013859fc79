package tasks

import (
	"slices"

	"ustack/tracefs"
)

// threads are the processes of threads over time.
type threads struct {
	lives map[int][]life       // in order of time
	alive map[int]map[int]bool // threads of a process that have not ended, as far as known
	since tracefs.Time         // up to which records may be missing
}

// life is a thread of a process.
type life struct {
	pid      int
	from, to tracefs.Time
	// outside is a time at which it was in no call whose entry was not seen.
	outside tracefs.Time
}

// maxLives bounds the lives by one number that are kept.
const maxLives = 64

func newThreads() threads {
	return threads{lives: make(map[int][]life), alive: make(map[int]map[int]bool)}
}

// last returns the life of a thread that has not ended, nil if there is none.
func (ts *threads) last(tid int) *life {
	if list := ts.lives[tid]; len(list) > 0 && list[len(list)-1].to == forever {
		return &list[len(list)-1]
	}
	return nil
}

// now returns the process of a thread, 0 if it is unknown.
func (ts *threads) now(tid int) int {
	if l := ts.last(tid); l != nil {
		return l.pid
	}
	return 0
}

// at returns the process of a thread at a time. known is false if nothing is known of the
// thread then.
func (ts *threads) at(tid int, t tracefs.Time) (pid int, known bool) {
	for _, l := range slices.Backward(ts.lives[tid]) {
		if l.from <= t {
			return l.pid, t < l.to
		}
	}
	return 0, false
}

// born notes that a thread of a process is there from a time on. outside is set as in life.
func (ts *threads) born(tid, pid int, at, outside tracefs.Time) {
	ts.ended(tid, at)
	list := ts.lives[tid]
	if len(list) >= maxLives {
		list = slices.Clone(list[maxLives/2:])
	}
	ts.lives[tid] = append(list, life{pid: pid, from: at, to: forever, outside: outside})
	if ts.alive[pid] == nil {
		ts.alive[pid] = make(map[int]bool)
	}
	ts.alive[pid][tid] = true
}

// met notes that a thread was found to be one of a process: it has been so since records were
// missing last, or since the thread before it ended.
func (ts *threads) met(tid, pid int) {
	if ts.now(tid) == pid {
		return
	}
	from := ts.since
	if list := ts.lives[tid]; len(list) > 0 {
		from = max(from, min(list[len(list)-1].to, forever-1))
	}
	ts.born(tid, pid, from, 0)
}

// ended notes that a thread has ended.
func (ts *threads) ended(tid int, at tracefs.Time) {
	l := ts.last(tid)
	if l == nil {
		return
	}
	l.to = max(l.from, at)
	if delete(ts.alive[l.pid], tid); len(ts.alive[l.pid]) == 0 {
		delete(ts.alive, l.pid)
	}
}

// executed notes that a thread has become the first and only one of its process.
func (ts *threads) executed(pid, old int, at tracefs.Time) {
	if old != pid {
		ts.ended(old, at)
	}
	if ts.now(pid) != pid {
		ts.born(pid, pid, at, at)
	}
}

// seen notes that a thread was outside of calls whose entry was missed.
func (ts *threads) seen(tid int, at tracefs.Time) {
	if l := ts.last(tid); l != nil {
		l.outside = max(l.outside, at)
	}
}

// lose notes that records are missing between two times: what becomes of the threads is
// unknown from the first one on.
func (ts *threads) lose(from, to tracefs.Time) {
	for tid := range ts.lives {
		if l := ts.last(tid); l != nil {
			l.to = max(l.from, from)
		}
	}
	clear(ts.alive)
	ts.since = max(ts.since, to)
}

// expire forgets lives that ended before a time.
func (ts *threads) expire(before tracefs.Time) {
	for tid, list := range ts.lives {
		n := 0
		for n < len(list) && list[n].to <= before {
			n++
		}
		switch {
		case n == len(list):
			delete(ts.lives, tid)
		case n > 0:
			ts.lives[tid] = slices.Clone(list[n:])
		}
	}
}
