package resolve

import (
	"bytes"

	"ustack/filemap"
	"ustack/tracefs"
)

// Limits bound how far after a record something that belongs to it may come.
// Zero fields do not bound.
type Limits struct {
	Lines int64
	Bytes int64
	// Time is in nanoseconds of the trace; it does not bound traces whose
	// clock counts something else.
	Time tracefs.Time
}

// Held is a batch with the outcomes of its frames.
type Held struct {
	*tracefs.Batch
	// Outcomes is parallel to Frames.
	Outcomes []Outcome
	// Results is parallel to Records if the batch has Shapes: the results of the
	// stacks that are shapes.
	Results []*Result
	// Attached is parallel to Records, empty without Options.Stitch.
	Attached []Attached

	uses  []use                     // parallel to Shapes, right as of table
	table int64                     // Version of the table
	named [filemap.TrustCount]int64 // frames of the Results that all have one trust
	mixed []*Result                 // the others
	fresh []*Result                 // all of one trust, and their files are not marked as used

	seq     int64
	names   int      // spans and frames that an announcement may still come for
	events  int      // events that a stack may still come for
	needs   int64    // seq of the newest batch whose stacks hang on events here
	waiters []waiter // frames that wait
	stacks  []*Stack
	end     mark
	late    []int32 // late stacks
	final   bool    // settled
	waits   []int32 // stacks of futex calls that can wait
}

// mark is a point in the stream.
type mark struct {
	pos   int64
	lines int64
	time  tracefs.Time
	timed bool
}

// pos is the place of a record in the input.
func (h *Held) pos(rec *tracefs.Record) filemap.Pos {
	return filemap.Pos(h.Pos + int64(rec.Off))
}

// hold puts a batch in the queue.
func (r *Resolver) hold(b *tracefs.Batch) *Held {
	var h *Held
	if n := len(r.free); n > 0 {
		h, r.free = r.free[n-1], r.free[:n-1]
	} else {
		h = new(Held)
	}
	r.seq++
	*h = Held{Batch: b, seq: r.seq, Outcomes: grown(h.Outcomes, len(b.Frames)),
		Results: h.Results[:0], Attached: h.Attached[:0], waiters: h.waiters[:0], stacks: h.stacks[:0], late: h.late[:0], waits: h.waits[:0],
		uses: h.uses[:0], table: noTable, mixed: h.mixed[:0], fresh: h.fresh[:0]}
	if len(b.Shapes) > 0 {
		h.Results = grown(h.Results, len(b.Records))
		h.uses = grown(h.uses, len(b.Shapes))
	}
	if r.opt.Stitch {
		h.Attached = grown(h.Attached, len(b.Records))
	}
	h.end = mark{pos: b.Pos + int64(len(b.Text)), lines: b.Line + b.Lines, time: r.now.time, timed: r.now.timed}
	for i := len(b.Records) - 1; i >= 0; i-- {
		if rec := &b.Records[i]; b.Timed(rec) {
			h.end.time, h.end.timed = b.Time(rec), true
			break
		}
	}
	r.now = h.end
	r.queue = append(r.queue, h)
	return h
}

// grown returns s with n zero elements.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

// within reports whether a later record is within the limits of an earlier
// one. It depends on the two records alone, not on how the input came in.
func (r *Resolver) within(h *Held, rec *tracefs.Record, lh *Held, later *tracefs.Record) bool {
	l := &r.opt.Hold
	if l.Bytes > 0 && int64(lh.pos(later)-h.pos(rec)) > l.Bytes {
		return false
	}
	// Times are read only if they can matter: they are far away by now.
	known := h.Late > 0 && lh.Late > 0 && lh.Late-h.Early <= l.Time
	if l.Time > 0 && !known && h.Timed(rec) && lh.Headed(later) &&
		lh.Time(later)-h.Time(rec) > l.Time {
		return false
	}
	// Lines are counted only if they can matter.
	if l.Lines > 0 && lh.Line+lh.Lines-h.Line > l.Lines {
		return lh.lineOf(later)-h.lineOf(rec) <= l.Lines
	}
	return true
}

func (h *Held) lineOf(rec *tracefs.Record) int64 {
	return h.Line + int64(bytes.Count(h.Text[:rec.Off], []byte{'\n'}))
}

// Next returns the oldest batch if nothing can change in it any more, nil if
// it has to wait. The caller gives it back with Release.
func (r *Resolver) Next() *Held {
	if len(r.queue) == 0 {
		return nil
	}
	h := r.queue[0]
	if !r.ended && !r.paused && !r.settled() {
		return nil
	}
	for _, later := range r.queue {
		if later.seq <= max(h.needs, h.seq) {
			r.settle(later)
		}
	}
	r.queue = r.queue[:copy(r.queue, r.queue[1:])]
	if r.opt.Stitch {
		r.settleEvents(h)
	}
	r.released = h.seq
	r.reached(h)
	r.count(h)
	if r.opt.collect != nil {
		r.opt.collect.collect(h)
	}
	return h
}

// reached notes how far the trace has been judged.
func (r *Resolver) reached(h *Held) {
	if h.end.timed {
		r.judged = max(r.judged, h.end.time)
	}
}

// Judged is the time up to which all stacks have their final outcomes, within the
// difference of the clocks of CPUs.
func (r *Resolver) Judged() tracefs.Time { return r.judged }

// settled reports whether nothing can change any more in the oldest batch:
// neither the names of its frames, nor which stacks its events have, nor the
// names in those.
func (r *Resolver) settled() bool {
	h := r.queue[0]
	if (h.names > 0 || h.events > 0) && !r.expired(h) {
		return false
	}
	for _, later := range r.queue[1:] {
		if later.seq > h.needs {
			break
		}
		if later.names > 0 && !r.expired(later) {
			return false
		}
	}
	return true
}

// expired reports whether all of a batch is beyond the limits.
func (r *Resolver) expired(h *Held) bool {
	l := &r.opt.Hold
	return l.Bytes > 0 && r.now.pos-h.end.pos > l.Bytes ||
		l.Lines > 0 && r.now.lines-h.end.lines > l.Lines ||
		l.Time > 0 && r.now.timed && h.end.timed && r.now.time-h.end.time > l.Time
}

// Release takes back a batch that Next gave out and returns its Batch, free
// to be filled again.
func (r *Resolver) Release(h *Held) *tracefs.Batch {
	if r.opt.Stitch {
		r.detachStacks(h)
	}
	b := h.Batch
	h.Batch = nil
	r.free = append(r.free, h)
	return b
}
