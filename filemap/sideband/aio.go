package sideband

import (
	"cmp"
	"math"

	"ustack/tracefs/perf"
)

// io_destroy(2) unmaps the ring of a context, whose address is the number of the context,
// and whatever the process has mapped over it. It does not name how large that is. io_setup
// maps the ring (aio_setup_ring in fs/aio.c), which perf reports as data of that thread.

// aioRings are the rings of processes that were seen to be set up.
type aioRings struct {
	// by has, by process and address, how large rings are; setups are the threads that
	// have called io_setup, with their processes.
	by     map[int]map[uint64]uint64
	setups map[int]int
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
		a.setups = make(map[int]int)
	}
	a.setups[r.TID] = r.PID
}

// mapped notes data that a thread has mapped: the ring, if it is in io_setup.
func (a *aioRings) mapped(r *perf.Record) {
	if pid, ok := a.setups[r.TID]; !ok || pid != r.PID {
		return
	}
	delete(a.setups, r.TID)
	if a.by == nil || len(a.by) >= maxRingProcesses {
		a.by = make(map[int]map[uint64]uint64)
	}
	rings := a.by[r.PID]
	if rings == nil || len(rings) >= maxRings {
		rings = make(map[uint64]uint64)
		a.by[r.PID] = rings
	}
	rings[r.Addr] = max(rings[r.Addr], pages(r.Len))
}

// size returns how large the ring of processes that share their memory is at most: any of them
// can have set up the one that is there.
func (a *aioRings) size(pids []int, at uint64) (size uint64) {
	for _, pid := range pids {
		size = max(size, a.by[pid][at])
	}
	return cmp.Or(size, ringReach)
}

// moved notes that something was moved to an address (mremap): it may be another ring.
func (a *aioRings) moved(pids []int, at uint64) {
	for _, pid := range pids {
		delete(a.by[pid], at)
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
