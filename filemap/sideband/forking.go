package sideband

import (
	"math"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A fork is reported when all is done (copy_process in kernel/fork.c): the memory
// was copied long before, and other threads may have changed theirs meanwhile. The
// child has what they have mapped since the call, or what was there before.

// forkCalls are the times at which threads have called fork, or clone.
type forkCalls struct {
	by map[int]tracefs.Time
	// gone are the last ranges that were unmapped, last the newest one. forgot is the
	// time of the newest one that is no longer among them.
	gone   [maxGone]goneRange
	last   int
	forgot tracefs.Time
}

// goneRange is a range that a process has called for to be unmapped.
type goneRange struct {
	pid, tid   int
	start, end uint64
	at         tracefs.Time
}

const (
	// maxForking bounds the calls that are remembered; those that failed are, too.
	maxForking = 1 << 12
	// forkTakes is assumed as the duration of a fork where the kernel reports no calls.
	forkTakes = tracefs.Time(100 * time.Millisecond)
	// maxGone bounds the ranges that are remembered, unmapTakes how long a call
	// takes until something is unmapped: on a busy machine the thread can wait for
	// a processor meanwhile.
	maxGone, unmapTakes = 1 << 12, tracefs.Time(time.Second)
)

func (f *forkCalls) begin(tid int, t tracefs.Time) {
	if f.by == nil || len(f.by) >= maxForking {
		f.by = make(map[int]tracefs.Time)
	}
	f.by[tid] = t
}

// end returns when the call began whose new process or thread a record reports; ok
// is false if it was not seen.
func (f *forkCalls) end(r *perf.Record) (began tracefs.Time, ok bool) {
	began, ok = f.by[r.ParentTID]
	delete(f.by, r.ParentTID)
	return began, ok && began <= r.Time
}

// copied notes that it is unknown whether a forked process has the mappings that
// its parent has made since the call.
func (c *calls) copied(r *perf.Record) {
	began, ok := c.forking.end(r)
	if !ok {
		parent := c.history.Spaces.Space(r.ParentPID).At(r.Time)
		if seen := c.seen(forking) && parent != nil && !parent.Unseen; !seen && c.alone(r.ParentPID) {
			return // nothing can have been mapped meanwhile, or none of it is sure
		}
		if began = 0; !c.seen(forking) { // else it was under way when the side band was opened, or is a 32-bit call:
			began = r.Time - forkTakes // other threads can have ended since
		}
	}
	v := c.history.Spaces.Space(r.PID).At(r.Time)
	if v == nil || v.Parent == 0 {
		return
	}
	for m := range v.Mappings.All() {
		if m.Since >= began && m.Since <= r.Time {
			c.history.unknown(r.PID, m.Start, m.End, r.Time)
		}
	}
	c.copiedGone(r, began-unmapTakes)
}

// alone reports whether no other thread can change the memory of a process of one thread.
func (c *calls) alone(pid int) bool {
	return c.history.Threads.Live(pid) < 2 && c.history.sharers.of[pid] == nil
}

// copiedGone notes that it is unknown whether a forked process has the mappings
// that its parent has removed since a time, in another thread: calls are reported
// when they begin.
func (c *calls) copiedGone(r *perf.Record, since tracefs.Time) {
	if c.alone(r.ParentPID) {
		return
	}
	f := &c.forking
	if f.forgot >= since {
		c.history.unknown(r.PID, 0, math.MaxUint64, r.Time)
		return
	}
	for i := range f.gone {
		g := &f.gone[(f.last+maxGone-i)%maxGone]
		if g.at < since {
			return // as are all before it
		}
		if g.at > r.Time || g.tid == r.ParentTID || !c.history.shares(g.pid, r.ParentPID) {
			continue
		}
		if c.history.codeBetween(r.PID, g.start, g.end, r.Time) == nil { // else it was mapped since
			c.history.unknown(r.PID, g.start, g.end, r.Time)
		}
	}
}

// took notes that a process unmaps a range.
func (f *forkCalls) took(r *perf.Record, start, end uint64) {
	f.last = (f.last + 1) % maxGone
	f.forgot = max(f.forgot, f.gone[f.last].at)
	f.gone[f.last] = goneRange{r.PID, r.TID, start, end, r.Time}
}
