package impact

import (
	"slices"

	"ustack/tracefs"
)

// hold is one thread's use of a lock: it asked for it, got it and released it. One that
// it got without waiting has asked == got, which is an estimate: at earliest low.
type hold struct {
	asked, got, released tracefs.Time
	low                  tracefs.Time
	lock                 int32
	waited               bool
}

// findHolds finds the holds that made others wait, or had to wait. Others make no call,
// and are not seen.
func (a *activity) findHolds(isLock func(int32) bool) {
	waiters := make(map[int32][]tracefs.Time)
	released := make(map[int32][]tracefs.Time)
	for _, th := range a.order {
		for _, c := range th.calls {
			switch {
			case c.lock < 0 || !isLock(c.lock):
			case c.kind == waits:
				waiters[c.lock] = append(waiters[c.lock], c.at)
			case c.kind == wakes:
				released[c.lock] = append(released[c.lock], c.at)
			}
		}
	}
	for _, m := range []map[int32][]tracefs.Time{waiters, released} {
		for _, list := range m {
			slices.Sort(list)
		}
	}
	for _, th := range a.order {
		th.findHolds(isLock)
	}
	usual := a.usualHolds()
	for _, th := range a.order {
		for i := range th.holds {
			h := &th.holds[i]
			if h.waited {
				continue
			}
			h.low = max(h.low, before(released[h.lock], h.released))
			high := min(after(waiters[h.lock], h.low), h.released)
			h.got = min(max(h.released-usual[h.lock], h.low), high)
			h.asked = h.got
		}
	}
}

func before(list []tracefs.Time, t tracefs.Time) tracefs.Time {
	if n, _ := slices.BinarySearch(list, t); n > 0 {
		return list[n-1]
	}
	return 0
}

func after(list []tracefs.Time, t tracefs.Time) tracefs.Time {
	n, _ := slices.BinarySearch(list, t+1)
	if n < len(list) {
		return list[n]
	}
	return 1<<63 - 1
}

// findHolds finds a thread's holds by its calls.
func (th *thread) findHolds(isLock func(int32) bool) {
	pending := make(map[int32]*hold)
	low := make(map[int32]tracefs.Time)
	first := tracefs.Time(0)
	if len(th.list) > 0 {
		first = th.list[0].from
	}
	for _, c := range th.calls {
		if c.kind == lost {
			clear(pending)
			first = c.at
			clear(low)
		}
		if c.lock < 0 || !isLock(c.lock) {
			continue
		}
		h := pending[c.lock]
		switch c.kind {
		case waits:
			if h == nil || h.got > 0 && c.at-h.got > retry {
				pending[c.lock] = &hold{lock: c.lock, asked: c.at, waited: true}
			}
		case returns:
			if h != nil {
				h.got = c.at
			}
		case wakes:
			if h == nil || h.got == 0 {
				h = &hold{lock: c.lock, low: max(first, low[c.lock])}
			}
			h.released = c.at
			th.holds = append(th.holds, *h)
			delete(pending, c.lock)
			low[c.lock] = c.at
		}
	}
}

// retry is how soon a thread that was woken, and was not the first at the lock, waits
// again. One that does so later has held the lock and released it unseen.
const retry = tracefs.Time(200e3)

// usualHolds is the median time for which each lock was held by threads that waited
// for it.
func (a *activity) usualHolds() map[int32]tracefs.Time {
	all := make(map[int32][]tracefs.Time)
	for _, th := range a.order {
		for _, h := range th.holds {
			if h.waited {
				all[h.lock] = append(all[h.lock], h.released-h.got)
			}
		}
	}
	usual := make(map[int32]tracefs.Time)
	for lock, list := range all {
		slices.Sort(list)
		usual[lock] = list[len(list)/2]
	}
	return usual
}

// holding returns the lock that a thread surely held just before a time, and since when;
// -1, and when it released one before, if it held none.
func (th *thread) holding(t tracefs.Time) (lock int32, since tracefs.Time) {
	n, _ := slices.BinarySearchFunc(th.holds, t, func(h hold, t tracefs.Time) int {
		if h.released < t {
			return -1
		}
		return 1
	})
	for k := n; k < min(n+maxNesting, len(th.holds)); k++ {
		if h := &th.holds[k]; h.got < t {
			return h.lock, h.got
		}
	}
	if n > 0 {
		return -1, th.holds[n-1].released
	}
	return -1, 0
}

// maxNesting bounds how many holds of a thread are looked at for one that lasts.
const maxNesting = 8
