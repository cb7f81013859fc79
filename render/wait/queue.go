package wait

import (
	"ustack/filemap/resolve"
	"ustack/render/lost"
	"ustack/tracefs"
)

// maxQueue bounds how many waits are kept until no gap can reach them; when an idle CPU
// keeps too many, the oldest are settled as if nothing had been lost.
const maxQueue = 1 << 15

// queue is waits that have ended, in the order in which that was seen. If records were
// lost meanwhile that is known only when the CPU that lost them has its next record. Until
// then they wait here.
//
// Invariants:
//   - There are no more than maxQueue.
//   - late is set if a gap began before settled, the time up to which waits were settled.
type queue struct {
	list    []off
	head    int
	settled tracefs.Time
	late    bool
}

// disturbed notes a gap that begins at from.
func (q *queue) disturbed(from tracefs.Time) {
	if from < q.settled {
		q.late = true
	}
}

// put adds a wait.
func (q *queue) put(w off, add func(*off)) {
	if len(q.list)-q.head >= maxQueue {
		for range maxQueue / 8 {
			q.settled = max(q.settled, q.list[q.head].last())
			add(&q.list[q.head])
			q.head++
		}
	}
	if len(q.list) == cap(q.list) && q.head > len(q.list)/2 {
		q.list, q.head = q.list[:copy(q.list, q.list[q.head:])], 0
	}
	q.list = append(q.list, w)
}

// settle adds the waits that ended before a time: no later gap begins earlier.
func (q *queue) settle(before tracefs.Time, known bool, add func(*off)) {
	for q.head < len(q.list) && (q.list[q.head].last() < before || known) {
		add(&q.list[q.head])
		q.head++
	}
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	q.settled = max(q.settled, before)
}

// last returns when the last of a wait was seen.
func (w *off) last() tracefs.Time { return max(w.on, w.woken) }

// settle brings the CPUs up to date, and settles waits that no later gap can reach.
func (a *Analysis) settle(h *resolve.Pending) {
	a.losses.SettleTimes(h)
	a.queue.settle(a.losses.Low(), a.losses.Known, a.add)
}

// finish settles all: the trace has ended.
func (a *Analysis) finish() {
	for _, th := range a.threads.all {
		if th.done || th.ready {
			a.queue.put(th.wait, a.add)
			th.done, th.ready = false, false
		}
	}
	a.losses.Close()
	a.queue.settle(a.losses.End+1, true, a.add)
}

// add adds a wait that has ended to the table.
func (a *Analysis) add(w *off) {
	key, c := assess(w, &a.losses.Gaps, a.end())
	a.table.add(key, &c)
	if !key.doubt {
		a.table.duration(w, key, c.Time)
	}
}

// end returns the end of the trace.
func (a *Analysis) end() tracefs.Time { return max(a.losses.End, a.until) }

// assess returns what a wait counts as, in spite of gaps. One that has not ended lasts
// until the end.
func assess(w *off, gaps *lost.Gaps, end tracefs.Time) (cellKey, Sum) {
	to, open := w.end(), false
	if to == 0 {
		to, open = end, true
	}
	to = max(to, w.from)
	k := cellKey{id: w.id, state: w.state, stack: w.stack, tid: w.tid, waker: w.waker}
	if _, _, lost := gaps.Within(w.proof, w.from); lost && w.id != stopped && w.proof < w.from {
		k.id = callLost
	}
	_, _, lost := gaps.Within(w.from, to)
	if w.wokenAt != 0 {
		_, _, lost = gaps.Within(w.wokenAt, w.on)
	}
	// Woken twice, and not seen to run: it can have run, and have gone off again.
	k.doubt = w.doubt || lost || w.early && w.on == 0
	c := Sum{Waits: 1, Time: to - w.from}
	switch {
	case k.doubt:
		k.waker = waker{unknownWaker, k.waker.stack}
	case open:
		c.Open, c.OpenTime, c.Waits, c.Time = 1, c.Time, 0, 0
	case w.woken == 0:
		c.Unsplit = 1
	case w.on != 0:
		if _, _, lost := gaps.Within(w.woken, w.on); !lost {
			c.Ready = max(w.on-w.woken, 0) // records can be out of order
		}
	}
	return k, c
}
