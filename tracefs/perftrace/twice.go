package perftrace

import (
	"bytes"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// twice finds records that a thread has twice. A thread is sampled by the event that was
// opened for it, and by the one that it inherited, if it was made between the opening of that
// one and the opening of its own. Both write the same record, one right after the other, while
// the thread is on its CPU; two calls of one kind by a thread are of the same event.
type twice struct {
	on     bool
	events map[int]seen // the last one of each thread
	stacks map[int]uint64
}

// seen is a record of a thread.
type seen struct {
	root, tracepoint uint64
	cpu              int
	time             tracefs.Time
	raw              []byte
}

const (
	// together is how far apart the two records can be, in nanoseconds: the kernel writes
	// both without running anything in between but interrupts.
	together = tracefs.Time(1e6)
	// maxThreads bounds the threads that are remembered.
	maxThreads = 1 << 15
)

// again reports whether a record is the second one of two.
func (d *twice) again(s *perf.StackSample) bool {
	if !d.on {
		return false
	}
	if d.events == nil || len(d.events)+len(d.stacks) > maxThreads {
		d.events, d.stacks = make(map[int]seen), make(map[int]uint64)
	}
	if s.Late {
		last, ok := d.stacks[s.TID]
		d.stacks[s.TID] = s.Cookie
		return ok && last == s.Cookie
	}
	last, ok := d.events[s.TID]
	if ok && last.root != s.Root && last.tracepoint == s.Tracepoint && last.cpu == s.CPU &&
		s.Time-last.time < together && bytes.Equal(last.raw, s.Raw) {
		return true
	}
	d.events[s.TID] = seen{s.Root, s.Tracepoint, s.CPU, s.Time, append(last.raw[:0], s.Raw...)}
	return false
}
