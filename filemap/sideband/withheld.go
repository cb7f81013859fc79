package sideband

import (
	"math"
	"slices"

	"ustack/tracefs/perf"
)

// A child does not get what its parent has marked with madvise(2), MADV_DONTFORK
// (VM_DONTCOPY in dup_mmap, kernel/fork.c), and nothing reports what it lacks.

// withheld are the ranges of processes that were marked. A mark is not taken off: what
// comes to its place later, or is unmarked (MADV_DOFORK), is unknown in a child, too.
type withheld struct{ by map[int][]taken }

const (
	// maxWithheld bounds the ranges of a process: more of them become one.
	// maxWithholding bounds the processes.
	maxWithheld, maxWithholding = 1 << 6, 1 << 12
)

// add notes a range. It reports whether others were forgotten for it.
func (w *withheld) add(pid int, t taken) (forgotten bool) {
	list := w.by[pid]
	for i := range list {
		if list[i].start <= t.start && t.end <= list[i].end {
			return false
		}
	}
	if w.by == nil || list == nil && len(w.by) >= maxWithholding {
		forgotten = w.by != nil
		w.by = make(map[int][]taken)
	}
	if len(list) == maxWithheld {
		for _, o := range list {
			t.start, t.end = min(t.start, o.start), max(t.end, o.end)
		}
		list = nil
	}
	w.by[pid] = append(list, t)
	return forgotten
}

// shared notes that a process was made that shares the memory of another one: what was marked
// stays so when that one ends. It reports whether the ranges of others were forgotten.
func (w *withheld) shared(parent, child int) (forgotten bool) {
	list := w.by[parent]
	if list == nil {
		return false
	}
	if forgotten = len(w.by) >= maxWithholding; forgotten {
		w.by = map[int][]taken{parent: list}
	}
	w.by[child] = slices.Clone(list)
	return forgotten
}

// has reports whether something that a process has between two addresses was marked.
func (w *withheld) has(pid int, start, end uint64) bool {
	return slices.ContainsFunc(w.by[pid], func(t taken) bool { return t.start < end && start < t.end })
}

// forget forgets the ranges of a process, which has executed a program or ended.
func (w *withheld) forget(pid int) { delete(w.by, pid) }

// withhold notes that a process marks a range.
func (c *calls) withhold(r *perf.Record, addr, size uint64) {
	end := addr + pages(size)
	if end < addr {
		return // refused
	}
	c.mark(r, taken{addr, end})
}

// mark notes that a range is marked: for all processes that share the memory, as any of them
// may end before another one forks.
func (c *calls) mark(r *perf.Record, t taken) {
	c.history.each(r.PID, func(pid int) {
		if c.withheld.add(pid, t) {
			c.loseSoft(int(r.CPU), 0, r.Time, r.Time)
		}
	})
}

// withholdAny notes that a process marks ranges that the record does not name.
func (c *calls) withholdAny(r *perf.Record) { c.withhold(r, 0, math.MaxUint64-uint64(1<<20)) }

// inherited makes unknown in a child what its parent has marked.
func (c *calls) inherited(r *perf.Record) {
	c.history.each(r.ParentPID, func(pid int) {
		for _, t := range c.withheld.by[pid] {
			if len(c.history.codeBetween(r.PID, t.start, t.end, r.Time)) > 0 {
				c.history.unknown(r.PID, t.start, t.end, r.Time)
			}
		}
	})
}
