package sideband

import (
	"slices"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A call that takes code away is recorded when it begins, and has its effect at some
// moment before it returns. Until then a reading of the process finds the code, although
// it was recorded to have gone. So a process in such a call is read again, and the range
// that the call takes is unknown if the call lasts. What another thread maps in the range
// meanwhile may go or stay: the records do not say which came first. It is unknown until
// it is seen again.

// flights are the calls that take something away and may not have had their effect: the
// last one of each thread that has no record since. The returns of munmap and mremap are
// recorded, the others end with the mapping that they make, if they fail, or with the next
// record of the thread.
type flights struct {
	// by has the flights of each process, older the flights of processes that
	// are not in by.
	by, older map[int][]flight
	// lost is until when records may be missing, by which some would have ended.
	lost tracefs.Time
}

type flight struct {
	taken
	tid int
	at  tracefs.Time
	// sure: it takes all of the range away, or it is recorded that it does not.
	sure bool
}

const (
	// maxFlights bounds the ranges of a process, maxFlying the processes, of which twice
	// as many can be remembered: those go first that were longest without a call.
	maxFlights = 1 << 8
	maxFlying  = 1 << 9
)

// begin notes that a thread calls for a range to be taken away. It reports whether others
// were forgotten for it that may yet have their effect.
func (f *flights) begin(r *perf.Record, t taken, sure bool) (forgotten bool) {
	list := f.of(r.PID)
	if len(list) == maxFlights {
		list = slices.DeleteFunc(list, func(c flight) bool { return f.over(&c, r.Time) })
	}
	if forgotten = len(list) == maxFlights; forgotten {
		list = slices.Delete(list, 0, 1)
	}
	return f.set(r.PID, append(list, flight{t, r.TID, r.Time, sure})) || forgotten
}

func (f *flights) of(pid int) []flight {
	if list, ok := f.by[pid]; ok {
		return list
	}
	return f.older[pid]
}

func (f *flights) set(pid int, list []flight) (forgotten bool) {
	delete(f.older, pid)
	if len(list) == 0 {
		delete(f.by, pid)
		return false
	}
	if _, ok := f.by[pid]; f.by == nil || !ok && len(f.by) == maxFlying {
		forgotten = len(f.older) > 0
		f.older, f.by = f.by, make(map[int][]flight)
	}
	f.by[pid] = list
	return forgotten
}

// drop forgets calls of a process.
func (f *flights) drop(pid int, which func(c *flight) bool) {
	if list := f.of(pid); len(list) > 0 {
		f.set(pid, slices.DeleteFunc(list, func(c flight) bool { return which(&c) }))
	}
}

// returned notes a record that a thread has caused itself: its last call has returned.
// It returns the ranges of that.
func (f *flights) returned(r *perf.Record) (over []taken) {
	switch {
	case r.Exec():
		f.set(r.PID, nil)
	case r.Type == unix.PERF_RECORD_SAMPLE, r.Type == unix.PERF_RECORD_MMAP, r.Type == unix.PERF_RECORD_MMAP2, r.Type == unix.PERF_RECORD_EXIT:
		f.drop(r.PID, func(c *flight) bool {
			if c.tid == r.TID {
				over = append(over, c.taken)
			}
			return c.tid == r.TID
		})
	}
	return over
}

// lose notes that records may be missing until a time.
func (f *flights) lose(t tracefs.Time) { f.lost = max(f.lost, t) }

// going reports whether a call may yet have its effect, if the process was read again and
// again until now. A call whose end may have gone unseen counts for a while.
func (f *flights) going(c *flight, now tracefs.Time) bool {
	return c.sure && c.at > f.lost || now-c.at <= unmapTakes
}

// over reports whether a call has had its effect: the record of its end may be lost.
func (f *flights) over(c *flight, now tracefs.Time) bool {
	return c.at <= f.lost && now-c.at > unmapTakes
}

// takeoff notes that a thread calls for a range to be taken away. Calls that are not
// among returns may take less than the range.
func (c *calls) takeoff(r *perf.Record, what change, start, end uint64) {
	last, ok := returns[what]
	if c.flights.begin(r, taken{start, end}, ok && c.seen(last)) {
		c.loseSoft(int(r.CPU), 0, r.Time, r.Time)
	}
}

// returns has, by change, the record of a call that returns, or fails.
var returns = map[change]change{unmapping: unmapReturned, mapOver: mapFailed, moving: moved}

// landings notes which calls a record ends: also a record from while the rings were
// opened. A reading that began before may have found what such a call has taken away.
func (c *calls) landings(r *perf.Record) {
	over := c.flights.returned(r)
	if len(over) == 0 || r.Time <= c.watch.since || !c.same(r.PID) {
		return
	}
	for _, t := range over {
		c.watch.took(t.start, t.end)
	}
}

// overFlights makes unknown what a thread has put between two addresses where other threads
// take something away: either may come last.
func (c *calls) overFlights(r *perf.Record, start, end uint64) {
	c.flights.others(c.history, r, func(f *flight) {
		from, to := max(start, f.start), min(end, f.end)
		if from >= to {
			return
		}
		c.unknown(r, from, to-from)
		if m := c.moves[f.tid]; m != nil {
			m.met = true
		}
	})
	c.flights.landed(c.history, r, start, end)
}

// landed notes that a process has something between two addresses: calls that unmap there have
// had their effect, if their end may have gone unseen. Else they would count for long. The
// threads that are in one are found otherwise, see underWay.
func (f *flights) landed(h *History, r *perf.Record, start, end uint64) {
	h.each(r.PID, func(pid int) {
		f.drop(pid, func(c *flight) bool { return c.at <= f.lost && start < c.end && c.start < end })
	})
}

// others calls fn with the calls under way of other threads that have the memory of the
// thread of a record.
func (f *flights) others(h *History, r *perf.Record, fn func(c *flight)) {
	h.each(r.PID, func(pid int) {
		for _, c := range f.of(pid) {
			if c.tid != r.TID && !f.over(&c, r.Time) {
				fn(&c)
			}
		}
	})
}

// flying returns the ranges that calls may yet take away from what a reading has
// found.
func (f *flights) flying(h *History, pid int, found []procmap.Mapping, now tracefs.Time) (list []taken) {
	h.each(pid, func(pid int) {
		for _, c := range f.of(pid) {
			if w := (watch{taken: []taken{c.taken}}); f.going(&c, now) && w.overtaken(found) {
				list = append(list, c.taken)
			}
		}
	})
	if len(list) <= maxTaken {
		return list
	}
	all := list[0]
	for _, t := range list {
		all.start, all.end = min(all.start, t.start), max(all.end, t.end)
	}
	return []taken{all}
}
