package sideband

import (
	"math"

	"ustack/tracefs/perf"
)

// brk(2) unmaps all between the new end of the heap and the old one (mm/mmap.c), also files
// that the process has mapped there, and names only the new end.

// heaps are the ends of the heaps of processes whose program began while they were
// recorded: the highest one of each that brk was called with. The heap's end is there or
// below. Of others it is unknown. Processes that share their memory have one heap: its end
// is at the highest of theirs or below.
type heaps struct{ top map[int]uint64 }

const (
	// maxHeaps bounds the processes.
	maxHeaps = 1 << 14
	// heapReach is how far the end of a heap can be above an address, if it is unknown.
	// No machine grants so much memory, and libraries are farther away.
	heapReach = 1 << 40
)

// began notes that a process begins a program, whose heap is empty.
func (h *heaps) began(pid int) { h.set(pid, 0) }

func (h *heaps) set(pid int, top uint64) {
	if h.top == nil || len(h.top) >= maxHeaps {
		h.top = make(map[int]uint64)
	}
	h.top[pid] = top
}

// forked notes that a process has its parent's heap.
func (h *heaps) forked(parent, child int) {
	delete(h.top, child)
	if top, ok := h.top[parent]; ok {
		h.set(child, top)
	}
}

// forget makes the heap of a process unknown.
func (h *heaps) forget(pid int) { delete(h.top, pid) }

// lost makes all heaps unknown, as records are missing.
func (h *heaps) lost() { clear(h.top) }

// moved notes that a process has set where its heap is (prctl(2), PR_SET_MM): it can be
// anywhere.
// All processes are those that share its memory.
func (h *heaps) moved(all []int) {
	for _, pid := range all {
		h.set(pid, math.MaxUint64)
	}
}

// isMoved reports whether a process has done that.
func (h *heaps) isMoved(pid int) bool { return h.top[pid] == math.MaxUint64 }

// brk notes a call of brk by one of the processes that share a memory, and returns up to where
// it may unmap memory.
func (h *heaps) brk(all []int, to uint64) (end uint64) {
	for _, pid := range all {
		top, ok := h.top[pid]
		if !ok {
			return to + min(heapReach, math.MaxUint64-to)
		}
		end = max(end, top)
	}
	for _, pid := range all {
		if to > h.top[pid] {
			h.set(pid, to)
		}
	}
	return end
}

// brk notes that a process sets the end of its heap. What is known to be above that, up to
// where the heap may have been, is unknown from then on: the call may fail.
func (c *calls) brk(r *perf.Record, to uint64) {
	start, end := pages(to), pages(c.heaps.brk(c.sharers(r.PID), to))
	if start >= end {
		return
	}
	end = c.takes(r, start, end-start)
	if len(c.history.codeBetween(r.PID, start, end, r.Time)) > 0 {
		c.history.unknown(r.PID, start, end, r.Time)
	}
	c.takeoff(r, heapEnd, start, end)
}
