package resolve

import (
	"errors"
	"fmt"
)

// check returns what of the invariants of the parts of a resolver does not hold.
func (r *Resolver) check() error {
	return errors.Join(r.queue.check())
}

// check returns what of the invariants does not hold.
func (q *queue) check() error {
	if want := q.released + int64(len(q.list)); q.seq != want {
		return fmt.Errorf("batch %d is the newest, %d should be", q.seq, want)
	}
	for i, h := range q.list {
		if h.Batch == nil || h.seq != q.released+1+int64(i) {
			return fmt.Errorf("batch %d of the queue is %d, after %d", i, h.seq, q.released)
		}
		if h.needs != 0 && (h.needs <= h.seq || h.needs > q.seq) {
			return fmt.Errorf("batch %d of %d needs %d", h.seq, q.seq, h.needs)
		}
		if h.names < 0 || h.events < 0 {
			return fmt.Errorf("%d names and %d events wait in batch %d", h.names, h.events, h.seq)
		}
		if i == len(q.list)-1 && h.end != q.now {
			return fmt.Errorf("the newest batch ends at %+v, not at %+v", h.end, q.now)
		}
	}
	for i, h := range q.free {
		if h.Batch != nil {
			return fmt.Errorf("batch %d is free and has text", i)
		}
	}
	return nil
}
