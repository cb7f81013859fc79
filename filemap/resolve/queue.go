package resolve

import (
	"slices"

	"ustack/filemap"
	"ustack/tracefs"
)

// queue is the batches that are held until they are final. Batches are numbered
// in the order in which they come, from 1 on.
//
// Invariants: the batches of the queue are the ones after released, without a gap,
// and the last one has the number seq and ends at now. A batch needs no batch but
// later ones that have come, and none has come back that uses a batch which has not.
// Free batches are in no queue.
type queue struct {
	limits     Limits
	list       []*Pending // oldest first
	back       []*Pending // that came back, oldest first, which others use
	free       []*Pending
	seq        int64       // of the newest batch
	released   int64       // seq of the newest batch that went out
	returned   int64       // seq of the newest batch that came back
	records    filemap.Pos // taken
	now        mark
	attributed tracefs.Time
	tied       bool // a batch can have a record of another input with the time of the last one
	paused     bool
	ended      bool
}

// hold puts a batch in the queue. stitched: events get their stacks.
func (q *queue) hold(b *tracefs.Batch, stitched bool) *Pending {
	var h *Pending
	if n := len(q.free); n > 0 {
		h, q.free = q.free[n-1], q.free[:n-1]
	} else {
		h = new(Pending)
	}
	q.seq++
	*h = Pending{Batch: b, seq: q.seq, first: q.records, Attributions: grown(h.Attributions, len(b.Frames)),
		Results: h.Results[:0], Attached: h.Attached[:0], Functions: h.Functions[:0], waiters: h.waiters[:0], stacks: h.stacks[:0], late: h.late[:0], waits: h.waits[:0],
		uses: h.uses[:0], table: noTable, mixed: h.mixed[:0], shares: h.shares.emptied()}
	if len(b.Templates) > 0 {
		h.Results = grown(h.Results, len(b.Records))
		h.uses = grown(h.uses, len(b.Templates))
	}
	if stitched {
		h.Attached = grown(h.Attached, len(b.Records))
	}
	q.records += filemap.Pos(len(b.Records))
	h.end = endOf(b, q.now)
	q.now, q.paused = h.end, b.Paused
	q.list = append(q.list, h)
	return h
}

// holds reports whether the batch of a number has not gone out.
func (q *queue) holds(seq int64) bool { return seq > q.released }

// oldest returns the batch that goes out next, nil if it has to wait.
func (q *queue) oldest() *Pending {
	if len(q.list) == 0 || !q.ended && !q.paused && !q.settled() {
		return nil
	}
	return q.list[0]
}

// settled reports whether nothing can change any more in the oldest batch:
// neither the names of its frames, nor which stacks its events have, nor the
// names in those.
func (q *queue) settled() bool {
	h := q.list[0]
	if h.events > 0 && !q.limits.expired(&h.end, &q.now) {
		return false
	}
	for _, needed := range q.needed() {
		if (needed.names > 0 || q.ties(needed)) && !q.limits.expired(&needed.end, &q.now) {
			return false
		}
	}
	return true
}

// ties reports whether the next record can have the time of the last one of a batch.
func (q *queue) ties(h *Pending) bool {
	return q.tied && h.end.timed && q.now.timed && q.now.time <= h.end.time
}

// needed returns the oldest batch and those whose stacks its events have.
func (q *queue) needed() []*Pending {
	h := q.list[0]
	return q.list[:max(h.needs, h.seq)-q.released]
}

// pop takes the oldest batch out.
func (q *queue) pop() {
	h := q.list[0]
	q.list = q.list[:copy(q.list, q.list[1:])]
	q.released = h.seq
	if h.end.timed {
		q.attributed = max(q.attributed, h.end.time)
	}
}

// release takes back a batch that has gone out, nil for none, and returns one that nothing
// needs any more, nil if there is none.
func (q *queue) release(h *Pending) *Pending {
	if h != nil {
		q.back, q.returned = append(q.back, h), h.seq
	}
	for i, h := range q.back {
		if h.used <= q.returned {
			q.back = slices.Delete(q.back, i, i+1)
			return h
		}
	}
	return nil
}

// reuse takes a batch that nothing needs, and returns its Batch.
func (q *queue) reuse(h *Pending) *tracefs.Batch {
	b := h.Batch
	h.Batch = nil
	q.free = append(q.free, h)
	return b
}

// stacks calls f for all held stacks from one place to before another, the
// latest first.
func (q *queue) stacks(from, to filemap.Pos, f func(h *Pending, i int)) {
	for n := len(q.list) - 1; n >= 0; n-- {
		h := q.list[n]
		for i := len(h.Records) - 1; i >= 0; i-- {
			pos := h.pos(i)
			if pos < from {
				return
			}
			if pos < to && h.Records[i].Kind == tracefs.KindStack {
				f(h, i)
			}
		}
	}
}
