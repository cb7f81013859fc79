package sideband

import (
	"slices"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A call that takes code away is recorded when it begins. Until it has its effect, a
// reading of the process finds the code, although it was recorded to have gone, and
// no second record corrects that: a call that succeeds has none. So a process in such
// a call is read again, and the range that the call takes is unknown if the call
// lasts.

// flights are the calls that take something away and may not have had their effect: the
// last one of each thread that has no record since. If the call fails, that is recorded.
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
	// as many can be remembered: those go first that were longest without a call. More
	// are not in one at once.
	maxFlights = 1 << 6
	maxFlying  = 1 << 9
)

// begin notes that a thread calls for a range to be taken away.
func (f *flights) begin(r *perf.Record, t taken, sure bool) {
	list := f.of(r.PID)
	if len(list) == maxFlights {
		list = slices.Delete(list, 0, 1)
	}
	f.set(r.PID, append(list, flight{t, r.TID, r.Time, sure}))
}

func (f *flights) of(pid int) []flight {
	if list, ok := f.by[pid]; ok {
		return list
	}
	return f.older[pid]
}

func (f *flights) set(pid int, list []flight) {
	delete(f.older, pid)
	if len(list) == 0 {
		delete(f.by, pid)
		return
	}
	if _, ok := f.by[pid]; f.by == nil || !ok && len(f.by) == maxFlying {
		f.older, f.by = f.by, make(map[int][]flight)
	}
	f.by[pid] = list
}

// drop forgets calls of a process.
func (f *flights) drop(pid int, which func(c *flight) bool) {
	if list := f.of(pid); len(list) > 0 {
		f.set(pid, slices.DeleteFunc(list, func(c flight) bool { return which(&c) }))
	}
}

// returned notes a record that a thread has caused itself: its last call has returned.
func (f *flights) returned(r *perf.Record) {
	switch {
	case r.Exec():
		f.set(r.PID, nil)
	case r.Type == unix.PERF_RECORD_SAMPLE, r.Type == unix.PERF_RECORD_MMAP, r.Type == unix.PERF_RECORD_MMAP2, r.Type == unix.PERF_RECORD_EXIT:
		f.drop(r.PID, func(c *flight) bool { return c.tid == r.TID })
	}
}

// landed notes that a process has something between two addresses: calls that unmap
// there have had their effect.
func (f *flights) landed(pid int, start, end uint64) {
	f.drop(pid, func(c *flight) bool { return start < c.end && c.start < end })
}

// lose notes that records may be missing until a time.
func (f *flights) lose(t tracefs.Time) { f.lost = max(f.lost, t) }

// going reports whether a call may yet have its effect. A call whose end may have
// gone unseen counts for a while.
func (f *flights) going(c *flight, now tracefs.Time) bool {
	return c.sure && c.at > f.lost || now-c.at <= unmapTakes
}

// takeoff notes that a thread calls for a range to be taken away. Calls that are not
// among failures may take less than the range.
func (c *calls) takeoff(r *perf.Record, what change, start, end uint64) {
	fails, ok := failures[what]
	c.flights.begin(r, taken{start, end}, ok && c.seen(fails))
}

// failures has, by change, the record of a call that has failed.
var failures = map[change]change{unmapping: unmapFailed, mapOver: mapFailed, moving: moved}

// landings notes which calls a record ends: also a record from while the rings were
// opened.
func (c *calls) landings(r *perf.Record) {
	c.flights.returned(r)
	if r.Type == unix.PERF_RECORD_MMAP || r.Type == unix.PERF_RECORD_MMAP2 {
		c.landed(r.PID, r.Addr, r.Addr+r.Len)
	}
}

// landed notes that a process has mapped something.
func (c *calls) landed(pid int, start, end uint64) {
	c.history.each(pid, func(pid int) { c.flights.landed(pid, start, end) })
}

// flying returns the ranges that calls may yet take away from what a reading has
// found.
func (c *calls) flying(pid int, found []procmap.Mapping, now tracefs.Time) (list []taken) {
	c.history.each(pid, func(pid int) {
		for _, f := range c.flights.of(pid) {
			if w := (watch{taken: []taken{f.taken}}); c.flights.going(&f, now) && w.overtaken(found) {
				list = append(list, f.taken)
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
