package futex

import "ustack/tracefs"

// Convoys are times in which a lock was handed from waiter to waiter: each hand-over is a
// call that wakes a thread, which then owns the lock and makes the next one, and each goes to
// a thread that waited already at the hand-over before, so that the queue was never empty.
// There are minHandOvers of them at least, more than half of the threads got the lock again
// while that lasted, and on average a thread owned it for no more than shortHold.
type Convoys struct {
	Count     int64
	HandOvers int64
	// Time is how long they lasted, Waits the waits that these hand-overs ended, Threads how
	// many queued in the longest one at least.
	Time, Waits tracefs.Time
	Longest     Convoy
	// Held is how long the lock was owned, HandOver how long it took from the calls until
	// the threads that they woke returned.
	Held, HandOver tracefs.Time
}

// Convoy is one of them, of Threads threads at least.
type Convoy struct {
	From, To  tracefs.Time
	HandOvers int64
	Threads   int
}

const (
	minHandOvers = 16
	// shortHold is far less than the 2.8 ms for which the scheduler lets a thread run that
	// others of its CPU wait for (base_slice_ns).
	shortHold = tracefs.Time(500e3)
)

// handed is a hand-over of a lock to a thread that waited already at the one before, which
// had given it to the thread that calls at at. That one returned from its wait at owned.
// It is the zero value for all others.
type handed struct {
	before, owned, at tracefs.Time
	to                int32
}

// handedBy returns what a wait for a lock shows of a convoy. It is certain if nothing was
// lost while the thread waited.
func (w *wait) handedBy(l *lock) handed {
	k := w.waker.wake
	if !w.waker.seen || k == nil || !k.of(l) || k.passed == 0 || w.began >= k.passed || k.owned > k.at {
		return handed{}
	}
	return handed{k.passed, k.owned, k.at, w.th.tid}
}

// convoys adds up the convoys of a lock.
//
// Invariants:
//   - run has hand-overs that follow each other, the last one at last, or none.
//   - No thread is counted more often than there are hand-overs.
type convoys struct {
	Convoys
	run  Convoys
	last tracefs.Time
	got  parts[int32] // the lock in the run
}

// add adds a hand-over that is certain. The thread waited from from to to.
func (c *convoys) add(h *handed, from, to tracefs.Time) {
	if c.run.HandOvers == 0 || h.before != c.last {
		c.end()
		c.run.Longest.From = h.before
	}
	c.last = h.at
	c.run.HandOvers++
	c.run.Waits += to - from
	c.run.Held += h.at - h.owned
	c.run.HandOver += max(to-h.at, 0)
	c.got.add(h.to, Tally{Count: 1})
}

// whole returns the run as a convoy, the zero value if it is none.
func (c *convoys) whole() (one Convoys) {
	again, threads := 0, len(c.got.list)
	for i := range c.got.list {
		if c.got.list[i].Count > 1 {
			again++
		}
	}
	once := threads - again + int(c.got.rest.Count) // those too many to keep apart may all be others
	if one = c.run; one.HandOvers < minHandOvers || again <= once || one.Held > shortHold*tracefs.Time(one.HandOvers) {
		return Convoys{}
	}
	one.Count, one.Longest.To, one.Longest.HandOvers, one.Longest.Threads = 1, c.last, one.HandOvers, threads
	one.Time = one.Longest.To - one.Longest.From
	return one
}

// end ends the run.
func (c *convoys) end() {
	one := c.whole()
	c.Convoys.sum(&one)
	c.run, c.last, c.got = Convoys{}, 0, parts[int32]{list: c.got.list[:0]}
}

func (c *Convoys) sum(o *Convoys) {
	c.Count += o.Count
	c.HandOvers += o.HandOvers
	c.Time += o.Time
	c.Waits += o.Waits
	c.Held += o.Held
	c.HandOver += o.HandOver
	if o.Longest.HandOvers > c.Longest.HandOvers {
		c.Longest = o.Longest
	}
}

// merge adds those of another lock, or of later waits: a run does not go on there.
func (c *convoys) merge(o *convoys) {
	c.end()
	c.Convoys.sum(&o.Convoys)
	one := o.whole()
	c.Convoys.sum(&one)
}

// pass counts the hand-over by which a wait ended, if it is certain in spite of gaps.
func (s *spent) pass(d *division, l *lock, g *Gaps) {
	if d.handed.at == 0 {
		return
	}
	if _, _, lost := g.Within(d.from, d.to); lost || !d.proven(l) {
		return
	}
	if s.convoys == nil {
		s.convoys = new(convoys)
	}
	s.convoys.add(&d.handed, d.from, d.to)
}

// convoysOf returns the convoys of waits that took a time, nil if there are none. Without
// seconds it is unknown what is short.
func (u *underway) convoysOf(s *spent) *Convoys {
	if s.convoys == nil || u.rp.losses.Ticks {
		return nil
	}
	var sum convoys
	sum.merge(s.convoys)
	if sum.Count == 0 {
		return nil
	}
	return &sum.Convoys
}
