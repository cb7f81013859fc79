package sideband

import (
	"cmp"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// Drained is what was found since the last Drain.
type Drained struct {
	// Until is the time of the call: all that happened before is known.
	Until tracefs.Time
	// Records were applied.
	Records int
	// Lost is how many records the kernel had no room for, Malformed how often
	// a ring had what is no record. After either, or when a CPU went on, all is
	// in Doubt from then on: it is time for Refresh.
	Lost      uint64
	Malformed int
	Doubt     bool
	// Came is how many CPUs went on.
	Came int
	// Unseen is how many records of the tracepoints were lost. After that, or when
	// Malformed, all is Unsure until Refresh.
	Unseen uint64
	Unsure bool
}

// batch is what is being drained, with memory that is used again.
type batch struct {
	bytes []byte  // records as the kernel wrote them
	order []entry // of those that count
	later []byte  // records that are for the next time
	rec   Record
}

// entry is a record in a batch.
type entry struct {
	time     tracefs.Time
	at, size int
}

// Drain brings the History up to date: what any process did before the call is
// in it when Drain returns. The error is that of writing the log.
//
// A record is in its ring before what it tells of can have an effect: an mmap
// before a thread can run in the mapping, a fork before the child runs. So what
// a stack in a trace that was read before the call needs is there. What happens
// while the rings are read, one after the other, is left for the next time, or
// effects could come before causes.
func (b *Band) Drain() (Drained, error) {
	b.drain()
	b.askNames()
	b.checkWritten()
	d := b.found
	d.Doubt = b.History.Gaps.Open()
	d.Unsure = !b.blind && b.History.Unsure.Open()
	b.found = Drained{}
	b.History.log.until(d.Until)
	return d, b.History.log.flush()
}

// drain adds to what was found since the last Drain.
func (b *Band) drain() {
	d := &b.found
	d.Until = b.Now()
	b.collect(d)
	b.apply(d)
	b.drained = d.Until
	b.followCPUs(d.Until)
	b.expire(d.Until)
}

// Reached tells up to which time the History has been looked up: what ended long
// before is forgotten.
func (b *Band) Reached(t tracefs.Time) { b.reached = max(b.reached, t) }

// expire forgets what is looked up no more.
func (b *Band) expire(now tracefs.Time) {
	keep := tracefs.Time(b.opt.Keep)
	const threads = 4 // which take less room
	if b.History.Spaces.Len() > b.opt.Most || b.History.Threads.Len() > threads*b.opt.Most {
		b.Reached(now)
	}
	if before := b.reached - keep; before-b.expired > keep/4 {
		b.History.Expire(before)
		b.comms.expire(before, b.History.Threads.known)
		b.expired = before
	}
}

// gap notes that records of a CPU are missing from a time on, n of them, 0 if
// nobody knows.
func (b *Band) gap(cpu int, n uint64, from, t tracefs.Time) {
	b.found.Lost += n
	b.breaks++
	b.comms.forget(t)
	b.History.lost(cpu, n, from, t)
}

// collect reads the rings and puts the records in order.
func (b *Band) collect(d *Drained) {
	q := &b.batch
	q.bytes, q.order = append(q.bytes[:0], q.later...), q.order[:0]
	q.later = q.later[:0]
	q.index(0)
	for _, r := range b.rings {
		b.collectFrom(r, d)
	}
	slices.SortStableFunc(q.order, func(a, b entry) int { return cmp.Compare(a.time, b.time) })
}

// collectFrom reads a ring.
func (b *Band) collectFrom(r *ring, d *Drained) {
	q := &b.batch
	at, first := len(q.bytes), len(q.order)
	var full bool
	q.bytes, full = r.read(q.bytes)
	err := q.index(at)
	for _, e := range q.order[first:] {
		if q.isLoss(e) {
			b.lost(r, e)
		}
		r.last = max(r.last, e.time)
	}
	if err != nil {
		d.Malformed++
		b.missed(r, 0, d.Until)
	}
	if full {
		b.lostUntold(r, d)
	}
}

// index adds the records from a place on to the order, up to one that is none.
func (q *batch) index(at int) error {
	for at < len(q.bytes) {
		n, err := size(q.bytes[at:])
		if err != nil {
			return err
		}
		t, err := when(q.bytes[at : at+n])
		if err != nil {
			return err
		}
		q.order = append(q.order, entry{t, at, n})
		at += n
	}
	return nil
}

func (q *batch) isLoss(e entry) bool {
	switch recordType(q.bytes[e.at:]) {
	case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
		return true
	}
	return false
}

// lost notes a record of a loss. If it is malformed, apply will say so.
func (b *Band) lost(r *ring, e entry) {
	q := &b.batch
	if _, err := Decode(q.bytes[e.at:e.at+e.size], &q.rec); err != nil {
		return
	}
	if n := r.loss.record(q.rec.Lost); n > 0 {
		b.missed(r, n, e.time)
	}
}

// lostUntold asks for losses of which no record tells yet, because the ring was
// full to the end.
func (b *Band) lostUntold(r *ring, d *Drained) {
	all, err := r.count()
	n := r.loss.report(all)
	if err != nil || n > 0 {
		b.missed(r, n, d.Until)
	}
}

// missed notes that n records of a ring are missing, from its last one on.
func (b *Band) missed(r *ring, n uint64, t tracefs.Time) {
	if r.soft {
		b.softGap(r.cpu, n, r.last, t)
		return
	}
	b.gap(r.cpu, n, r.last, t)
}

// apply makes history of the records of the batch that are of before the call.
func (b *Band) apply(d *Drained) {
	q := &b.batch
	for _, e := range q.order {
		raw := q.bytes[e.at : e.at+e.size]
		if e.time > d.Until {
			if !q.isLoss(e) {
				q.later = append(q.later, raw...)
			}
			continue
		}
		if _, err := Decode(raw, &q.rec); err != nil {
			d.Malformed++
			b.gap(int(q.rec.CPU), 0, e.time, e.time)
			continue
		}
		d.Records++
		b.record(&q.rec)
	}
}

// record makes history of a record. Processes outside of our PID namespace have
// no number that could be in a trace of ours.
func (b *Band) record(r *Record) {
	if r.PID <= 0 || r.TID <= 0 {
		return
	}
	h := b.History
	switch {
	case r.Type == unix.PERF_RECORD_SAMPLE && r.Raw != nil:
		b.traced(r)
		return
	case r.Type == unix.PERF_RECORD_SAMPLE:
		h.loaded(r.PID, r.Time)
		return
	case r.Type == unix.PERF_RECORD_MMAP2:
		m := r.mapping(&b.names)
		if m.Kind.HasFile() && m.BuildID.IsZero() {
			b.completer.complete(r.PID, &m, wall(r.Time, b.clock))
		}
		if h.mapped(r.PID, &m, r.Time) {
			b.mapsUnnamed(r, &m)
			b.watchFile(r.PID, &m, r.Time)
		}
		b.overMoves(r)
	case r.Exec():
		comm := b.names.Intern(r.Name)
		b.comms.add(r.TID, called{from: r.Time, comm: comm})
		delete(b.namings.by, r.PID)
		h.exec(r.PID, comm, r.Time)
		if b.tellsLoaded() {
			h.loading(r.PID, r.Time)
		}
	case r.Type == unix.PERF_RECORD_COMM:
		comm := b.names.Intern(r.Name)
		b.comms.add(r.TID, called{from: r.Time, comm: comm})
		if r.PID != r.TID {
			return
		}
		h.comm(r.PID, comm, r.Time)
	case r.Thread():
		b.forked(r)
		h.thread(r.PID, r.TID, r.Time)
		return
	case r.Type == unix.PERF_RECORD_FORK:
		b.forked(r)
		b.born(r)
		h.fork(max(r.ParentPID, 0), r.PID, r.Time)
	case r.Type == unix.PERF_RECORD_EXIT:
		delete(b.moves, r.TID)
		if !h.exit(r.PID, r.TID, r.Time) {
			return
		}
	default:
		return
	}
	b.watch.note(r, b.same(r.PID))
}

// recordType is the type of a whole record.
func recordType(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
