// Package ahead decodes the text of a batch's events before an analysis takes them, so that
// one processor can do that while another one does the analysis of the batch before.
package ahead

import (
	"slices"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/syscalls"
)

// Events are the system calls and scheduler events of a batch.
type Events struct {
	which []int32 // parallel to its records: which task, or call as a negative number, from 1; 0 for none
	tasks []sched.Event
	calls []syscalls.Event
}

// Pool has the memory of Events. Its methods may run at the same time.
type Pool struct{ free chan *Events }

// pooled is how many Events wait to be used again.
const pooled = 8

// NewPool returns an empty Pool.
func NewPool() Pool { return Pool{make(chan *Events, pooled)} }

// Decode decodes the events of a batch, and keeps them with it for Take. What it leaves out
// has to be decoded later.
func (p Pool) Decode(h *resolve.Pending) {
	var e *Events
	select {
	case e = <-p.free:
	default:
		e = new(Events)
	}
	e.decode(h.Batch)
	h.Prepared = e
}

// Take returns the events of a batch, nil if they have not been decoded.
func (p Pool) Take(h *resolve.Pending) *Events {
	e, _ := h.Prepared.(*Events)
	h.Prepared = nil
	return e
}

// Put takes events back that nothing uses any more, or nil.
func (p Pool) Put(e *Events) {
	if e == nil {
		return
	}
	select {
	case p.free <- e:
	default:
	}
}

// Event returns what an event of the batch has been decoded to: a call, a scheduler event, or
// neither. They are right as long as the batch is.
func (e *Events) Event(i int) (*syscalls.Event, *sched.Event) { return e.get(e.which[i]) }

// One decodes the body of one event, as Decode and Event do, in place of all others.
func (e *Events) One(body []byte) (*syscalls.Event, *sched.Event) {
	e.tasks, e.calls = e.tasks[:0], e.calls[:0]
	return e.get(e.event(body))
}

func (e *Events) get(n int32) (*syscalls.Event, *sched.Event) {
	switch {
	case n > 0:
		return nil, &e.tasks[n-1]
	case n < 0:
		return &e.calls[-n-1], nil
	}
	return nil, nil
}

func (e *Events) decode(b *tracefs.Batch) {
	e.which, e.tasks, e.calls = slices.Grow(e.which[:0], len(b.Records)), e.tasks[:0], e.calls[:0]
	for i := range b.Records {
		rec := &b.Records[i]
		n := int32(0)
		if rec.Kind == tracefs.KindEvent && rec.TID != tracefs.NoTID && rec.Flags&(tracefs.NoText|tracefs.Continued) == 0 && rec.Body < rec.End {
			b.NoteTime(rec)
			n = e.event(b.Text[rec.Body:rec.End])
		}
		e.which = append(e.which, n)
	}
}

// event decodes the body of an event, and returns which one it is.
func (e *Events) event(body []byte) int32 {
	if len(body) < 2 || body[0] != 's' && body[0] != 't' {
		return 0
	}
	if body[1] == 'y' {
		e.calls = append(e.calls, syscalls.Event{})
		n := len(e.calls)
		if !syscalls.Parse(body, &e.calls[n-1]) {
			e.calls = e.calls[:n-1]
			return 0
		}
		return -int32(n)
	}
	e.tasks = append(e.tasks, sched.Event{})
	n := len(e.tasks)
	if !sched.Parse(body, &e.tasks[n-1]) {
		e.tasks = e.tasks[:n-1]
		return 0
	}
	return int32(n)
}
