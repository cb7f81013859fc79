package sideband

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// Code can go without a system call that removes it by name, and without one that is
// traced: shrinking the heap (heap.go) and io_destroy (aio.go) unmap what was put there, mmap
// with MAP_HUGETLB takes more than its length says, a child does not get what its parent
// has marked (withheld.go), 32-bit calls are not traced (see compat.go), and the
// segments of a program may lie over each other. Whatever then comes to the place is
// reported: code as such, and data by a separate event. As some programs map data all
// the time, its records go to the soft ring. The event reports code, too: its inode, see
// inodes.go.

// openData opens that event on a CPU, whose records go to its soft ring, nil if there
// is none.
func (rs *rings) openData(soft *ring) {
	if soft == nil {
		return // all of it goes unseen, see Unseen
	}
	e := perf.Event{Data: true, UserOnly: true, Disabled: true, CountLost: soft.features.lost, Clock: rs.clock, Wakeup: soft.Size() / 4}
	soft.WithoutTasks = true
	if soft.add(&e, perf.OnCPU(soft.CPU)) != nil {
		rs.noData = true
	}
}

// dataMapped notes that a process has data in a place. Anonymous memory stays:
// some programs make it writable and executable by turns, over and over.
func (c *calls) dataMapped(r *perf.Record) {
	end := c.takes(r, r.Addr, r.Len)
	over := false
	c.history.each(r.PID, func(pid int) {
		over = over || slices.ContainsFunc(c.history.codeBetween(pid, r.Addr, end, r.Time), goes)
	})
	if over {
		c.history.unmapped(r.PID, r.Addr, end, r.Time)
	}
}

// goes reports whether data in its place proves that a mapping is gone.
func goes(m space.Mapping) bool {
	return m.File.Kind != procmap.Anonymous && m.File.Kind != procmap.AnonNamed
}
