package sideband

import (
	"cmp"
	"maps"
	"math"

	"ustack/tracefs/perf"
)

// io_destroy(2) unmaps the ring of a context, whose address is the number of the context,
// and whatever the process has mapped over it. It does not name how large that is. io_setup
// maps the ring (aio_setup_ring in fs/aio.c), which perf reports as data of that thread.

// io_setup unmaps the ring itself if it fails after that: if the number of the context cannot
// be written, for one. What another thread has mapped over the ring by then goes, too.

// aioRings are the rings of processes that were seen to be set up.
type aioRings struct {
	// by has, by process and address, how large rings are; setups are the threads that
	// are in io_setup.
	by     map[int]map[uint64]uint64
	setups map[int]aioSetup
}

// aioSetup is a call of io_setup that has not returned, and its ring, empty before that is
// mapped.
type aioSetup struct {
	pid  int
	ring taken
}

const (
	// maxRingProcesses bounds the processes and the threads, maxRings the rings of one.
	maxRingProcesses, maxRings = 1 << 12, 1 << 8
	// ringReach is how large a ring can be (ioctx_alloc: at most 2^23 events of 32 bytes),
	// if it was not seen to be set up, or is at another place since (mremap).
	ringReach = 256<<20 + 1<<20
)

// begin notes that a thread calls io_setup.
func (a *aioRings) begin(r *perf.Record) {
	if a.setups == nil || len(a.setups) >= maxRingProcesses {
		a.setups = make(map[int]aioSetup)
	}
	a.setups[r.TID] = aioSetup{pid: r.PID}
}

// mapped notes data that a thread has mapped: the ring, if it is in io_setup. The processes
// are those that share its memory: any of them may end before the ring goes.
func (a *aioRings) mapped(r *perf.Record, pids []int) (ring taken, ok bool) {
	s, ok := a.setups[r.TID]
	if !ok || s.pid != r.PID || s.ring.end != 0 {
		return taken{}, false
	}
	s.ring = taken{r.Addr, r.Addr + pages(r.Len)}
	a.setups[r.TID] = s
	for _, pid := range pids {
		a.add(pid, r.Addr, pages(r.Len))
	}
	return s.ring, true
}

func (a *aioRings) add(pid int, at, size uint64) {
	if a.by == nil || len(a.by) >= maxRingProcesses {
		a.by = make(map[int]map[uint64]uint64)
	}
	rings := a.by[pid]
	if rings == nil || len(rings) >= maxRings {
		rings = make(map[uint64]uint64)
		a.by[pid] = rings
	}
	rings[at] = max(rings[at], size)
}

// shared notes that a process was made that shares the memory of another one, whose rings it
// has.
func (a *aioRings) shared(parent, child int) {
	rings := a.by[parent]
	switch {
	case rings == nil:
	case len(a.by) >= maxRingProcesses:
		a.by = nil // any ring may be as large as one can be
	default:
		a.by[child] = maps.Clone(rings)
	}
}

// size returns how large the ring of processes that share their memory is at most: any of them
// can have set up the one that is there.
func (a *aioRings) size(pids []int, at uint64) (size uint64) {
	for _, pid := range pids {
		size = max(size, a.by[pid][at])
	}
	return cmp.Or(size, ringReach)
}

// moved notes that something was moved between two addresses (mremap): other rings may be there.
func (a *aioRings) moved(pids []int, start, end uint64) {
	for _, pid := range pids {
		maps.DeleteFunc(a.by[pid], func(at, _ uint64) bool { return start <= at && at < end })
	}
}

// forget forgets the rings of a process, which has executed a program or ended.
func (a *aioRings) forget(pid int) { delete(a.by, pid) }

// lost forgets all, as records are missing.
func (a *aioRings) lost() { *a = aioRings{} }

// sharers returns the processes that share the memory of a process, with itself.
func (c *calls) sharers(pid int) (pids []int) {
	c.history.each(pid, func(pid int) { pids = append(pids, pid) })
	return pids
}

// ringMapped notes data that a thread has mapped, which may be a ring.
func (c *calls) ringMapped(r *perf.Record) {
	if _, ok := c.aio.setups[r.TID]; !ok {
		return
	}
	if ring, ok := c.aio.mapped(r, c.sharers(r.PID)); ok {
		c.takeoff(r, ringBegin, ring.start, ring.end) // if it fails
	}
}

// overRings makes code unknown that a process maps over a ring whose io_setup has not
// returned.
func (c *calls) overRings(r *perf.Record) {
	for _, s := range c.aio.setups {
		if s.ring.start < r.Addr+r.Len && r.Addr < s.ring.end && c.history.shares(s.pid, r.PID) {
			c.unknown(r, r.Addr, r.Len)
			return
		}
	}
}

// destroyed notes that a process calls io_destroy. What is known to be in the ring is
// unknown from then on: the call may fail.
func (c *calls) destroyed(r *perf.Record, at uint64) {
	size := c.aio.size(c.sharers(r.PID), at)
	if at > math.MaxUint64-size {
		return // refused
	}
	end := c.takes(r, at, size)
	if len(c.history.codeBetween(r.PID, at, end, r.Time)) > 0 {
		c.history.unknown(r.PID, at, end, r.Time)
	}
	c.takeoff(r, ringEnd, at, end)
}
