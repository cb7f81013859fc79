package sideband

import (
	"sort"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// comms are the names of threads over time. The zero value has none.
type comms struct {
	byTID map[int][]called
	// since is when records were lost last: names from before are unknown.
	since tracefs.Time
}

// called is how a thread was called from a time on.
type called struct {
	from tracefs.Time
	comm string
	// like, if not 0, is the thread that it inherited the name of: its creator,
	// as that was called then.
	like int
}

// add notes a change. A change from before a loss does not show what came after
// it.
func (c *comms) add(tid int, call called) {
	if call.from < c.since {
		return
	}
	if c.byTID == nil {
		c.byTID = make(map[int][]called)
	}
	c.byTID[tid] = append(c.byTID[tid], call)
}

// forget is for when changes may have been missed.
func (c *comms) forget(t tracefs.Time) {
	clear(c.byTID)
	c.since = max(c.since, t)
}

// at finds the name of a thread at a time, and until when that is known to hold if
// all changes up to now are known. found is false if the name is unknown, known is
// false if there is no record of the thread at all.
func (c *comms) at(tid int, t, now tracefs.Time) (call called, until tracefs.Time, found, known bool) {
	list := c.byTID[tid]
	next := sort.Search(len(list), func(i int) bool { return list[i].from > t })
	until = now + 1
	if next < len(list) {
		until = list[next].from
	}
	if next == 0 {
		return called{}, until, false, len(list) > 0 || t < c.since
	}
	return list[next-1], until, true, true
}

// resolve notes the name of the thread that this one inherited its name of.
func (c *comms) resolve(tid int, call called, comm string) {
	list := c.byTID[tid]
	for i := range list {
		if list[i] == call {
			list[i].comm, list[i].like = comm, 0
		}
	}
}

// asked notes the name of a thread that was read from proc, at a time up to which
// all changes are known. There were none since it was made, or since it is
// followed, or they would be in the list.
func (c *comms) asked(tid int, comm string, at tracefs.Time) {
	list := c.byTID[tid]
	switch {
	case len(list) == 0:
		c.add(tid, called{from: c.since, comm: comm})
	case len(list) == 1 && list[0].like != 0 && list[0].from <= at:
		list[0].comm, list[0].like = comm, 0
	}
}

// expire forgets names from before a time, and threads that have ended; alive
// reports whether a thread number may have been in use since.
func (c *comms) expire(before tracefs.Time, alive func(tid int) bool) {
	for tid, list := range c.byTID {
		if list[len(list)-1].from <= before && !alive(tid) {
			delete(c.byTID, tid) // one of the kernel's own can be asked again
			continue
		}
		old := sort.Search(len(list), func(i int) bool { return list[i].from > before }) - 1
		if old > 0 {
			c.byTID[tid] = append(list[:0], list[old:]...)
		}
	}
}

// forked notes that a thread was made.
func (c *comms) forked(r *perf.Record) {
	like := r.ParentTID
	if like <= 0 {
		like = -1 // of another PID namespace
	}
	c.add(r.TID, called{from: r.Time, like: like})
}

// Comm returns the name of a thread at a time before now: "" and false if unknown.
// The answer, also that it is unknown, holds until the returned time, exclusive.
// The name of a thread that was there when the side band was opened is read from
// proc.
func (b *Band) Comm(r *procmap.Reader, tid int, t tracefs.Time) (comm string, until tracefs.Time, ok bool) {
	if t > b.drained {
		b.drain()
	}
	const generations = 8
	comm, ok = b.comm(r, tid, t, generations)
	_, until, _, _ = b.comms.at(tid, t, b.drained)
	return comm, until, ok
}

// comm looks back so many generations.
func (b *Band) comm(r *procmap.Reader, tid int, t tracefs.Time, generations int) (string, bool) {
	call, _, found, known := b.comms.at(tid, t, b.drained)
	if found && call.like == 0 {
		return call.comm, true
	}
	if (found || !known) && b.ask(r, tid) {
		if call, _, found, _ = b.comms.at(tid, t, b.drained); found && call.like == 0 {
			return call.comm, true
		}
	}
	if !found || generations == 0 {
		return "", false
	}
	// The thread may have ended, and its creator not.
	comm, ok := b.comm(r, call.like, call.from, generations-1)
	if ok {
		b.comms.resolve(tid, call, comm)
	}
	return comm, ok
}

// ask reads the name of a thread from proc, and reports whether it is there.
func (b *Band) ask(r *procmap.Reader, tid int) bool {
	at := b.Now() // before: a change while it is read is recorded
	s, err := r.Stat(tid)
	if err != nil {
		return false
	}
	b.drain() // what has changed until then
	b.comms.asked(tid, s.TaskComm(), at)
	return true
}
