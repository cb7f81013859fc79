package perf

import (
	"cmp"
	"iter"
	"slices"

	"ustack/tracefs"
)

// Loss is a time in which records of a CPU are missing.
type Loss struct {
	CPU int
	// Records is how many the kernel had no room for, 0 if unknown.
	Records uint64
	// From is the time of the last record before it, To the time of the record
	// that reports it, or of the reading.
	From, To tracefs.Time
}

// Batch is the records of several rings, copied out of them and in order of time.
// Its zero value is empty. It is used again and again:
//
//	batch.Begin()
//	for _, ring := range rings {
//		err = batch.Collect(ring, until, lost)
//	}
//	batch.Sort()
//	for time, record := range batch.Until(until) { … }
//
// Records from while the rings are read, one after the other, are left for the
// next batch, or effects could come before causes.
type Batch struct {
	layout Layout
	bytes  []byte  // records as the kernel wrote them
	order  []entry // of the records that count
	later  []byte  // records that are for the next time
}

// entry is a record in a batch.
type entry struct {
	time     tracefs.Time
	at, size int
}

// Begin takes the records that were left for this batch.
func (q *Batch) Begin() {
	q.bytes, q.order = append(q.bytes[:0], q.later...), q.order[:0]
	q.later = q.later[:0]
	_ = q.index(0) // it was before
}

// Add adds records that are one after the other. The error wraps ErrRecord: the
// records before it are added, the rest is not.
func (q *Batch) Add(records []byte) error {
	at := len(q.bytes)
	q.bytes = append(q.bytes, records...)
	return q.index(at)
}

// Collect adds the records of a ring, and gives the room back. Each loss is passed
// to lost where it was found. If the ring has bytes that are no record, the rest of
// it is a loss and the error wraps ErrRecord. until is the time of the reading.
func (q *Batch) Collect(r *Ring, until tracefs.Time, lost func(Loss)) error {
	at, first := len(q.bytes), len(q.order)
	var full bool
	q.bytes, full = r.Read(q.bytes)
	err := q.index(at)
	for _, e := range q.order[first:] {
		r.note(q.layout, q.bytes[e.at:e.at+e.size], e.time, lost)
	}
	if r.WithoutTasks {
		q.beside(first)
	}
	if err != nil {
		lost(Loss{r.CPU, 0, r.last, until})
	}
	if full {
		r.unrecorded(until, lost)
	}
	return err
}

// beside takes the records from a place of the order on for those of a ring that is beside
// another one.
func (q *Batch) beside(first int) {
	kept := slices.DeleteFunc(q.order[first:], func(e entry) bool { return isTask(q.bytes[e.at:]) })
	for _, e := range kept {
		markBeside(q.bytes[e.at:][:e.size])
	}
	q.order = q.order[:first+len(kept)]
}

// note notes the time of a record, and passes it on if it is a loss. The reader of
// the record finds out if it is malformed.
func (r *Ring) note(l Layout, b []byte, t tracefs.Time, lost func(Loss)) {
	if isLoss(b) {
		var rec Record
		if _, err := l.Decode(b, &rec); err == nil {
			if n := r.loss.record(rec.Lost); n > 0 {
				lost(Loss{r.CPU, n, r.last, t})
			}
		}
	}
	r.last = max(r.last, t)
}

// unrecorded asks for losses without a record yet, because the ring was full to
// the end.
func (r *Ring) unrecorded(until tracefs.Time, lost func(Loss)) {
	all, err := r.Lost()
	n := r.loss.report(all)
	if err != nil || n > 0 {
		lost(Loss{r.CPU, n, r.last, until})
	}
}

// index adds the records from a place on to the order, up to one that is none.
func (q *Batch) index(at int) error {
	for at < len(q.bytes) {
		n, err := size(q.bytes[at:])
		if err != nil {
			return err
		}
		t, err := q.layout.when(q.bytes[at : at+n])
		if err != nil {
			return err
		}
		q.order = append(q.order, entry{t, at, n})
		at += n
	}
	return nil
}

// Sort puts the records in order of time. Records of one time stay as they were
// added.
func (q *Batch) Sort() {
	slices.SortStableFunc(q.order, func(a, b entry) int { return cmp.Compare(a.time, b.time) })
}

// Until yields the records up to a time. It keeps later ones for the next batch. A
// record is valid until the next Begin.
func (q *Batch) Until(until tracefs.Time) iter.Seq2[tracefs.Time, []byte] {
	return func(yield func(tracefs.Time, []byte) bool) {
		more := true
		for _, e := range q.order {
			b := q.bytes[e.at : e.at+e.size]
			switch {
			case e.time <= until:
				more = more && yield(e.time, b)
			case !isLoss(b):
				q.later = append(q.later, b...)
			}
		}
	}
}
