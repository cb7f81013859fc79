package perfdata

// entry is a record that waits for its turn.
type entry struct {
	time uint64
	place
}

// queue puts records in order of time. perf writes them in rounds: it empties the rings of
// all CPUs, one after the other, and marks the end. What comes after the next mark is
// later than all that was before the last one, so this can go out
// (tools/perf/util/ordered-events.c).
//
// Invariants: pending is made of runs, each in order of time. Records go out in order of
// time, those of the same time in order of the file; but one that comes after a later one
// has gone out goes out at once, and is counted in unordered.
type queue struct {
	pending []entry
	runs    []int // where runs begin in pending
	scratch []entry
	ready   []entry // in order, from next on
	next    int
	latest  uint64             // of all records that have come
	round   uint64             // latest at the last mark
	marks   [roundsBack]uint64 // latest at the marks before, the last one first
	passed  uint64             // records until this time have been let go
	// unordered counts records that came too late.
	unordered int64
}

// add adds a record. One without a time goes out with the next ones, before them.
func (q *queue) add(t uint64, at place) {
	if t < q.passed {
		if t > 0 {
			q.unordered++
		}
		t = q.passed
	}
	q.latest = max(q.latest, t)
	if n := len(q.pending); n == 0 || q.pending[n-1].time > t {
		q.runs = append(q.runs, n)
	}
	q.pending = append(q.pending, entry{t, at})
}

// mark notes the end of a round.
func (q *queue) mark() {
	q.flush(q.round)
	copy(q.marks[1:], q.marks[:])
	q.marks[0], q.round = q.round, q.latest
}

// roundsBack is how many marks are remembered. A ring is full only after perf has emptied it
// for the last time, and the record of a loss is written once it is emptied again: so the
// record before the loss is of the round before, at the latest, or of the one before that, and
// what was lost is later than all rounds before these two. Emptying takes time, in which the
// other CPUs go on: one more. The record of the loss itself goes out two marks after it came.
const roundsBack = 5

// before returns a time before which nothing was lost of which a record goes out now says so.
func (q *queue) before() uint64 { return q.marks[roundsBack-1] }

// half lets the earlier half go, as there are too many.
func (q *queue) half() {
	q.sort()
	if n := len(q.pending); n > 0 {
		q.flush(q.pending[(n-1)/2].time)
	}
}

// flush lets all records until a time go. The ready ones must have been taken.
func (q *queue) flush(until uint64) {
	q.sort()
	n := 0
	if k := len(q.pending); k > 0 && q.pending[k-1].time <= until {
		n = k
	} else {
		n = search(q.pending, until)
	}
	q.ready = append(q.ready[:0], q.pending[:n]...)
	q.next = 0
	q.pending = q.pending[:copy(q.pending, q.pending[n:])]
	q.runs = q.runs[:0]
	if len(q.pending) > 0 {
		q.runs = append(q.runs, 0)
	}
	q.passed = max(q.passed, until)
}

// search returns how many entries of a list in order are not after a time.
func search(list []entry, t uint64) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if m := (lo + hi) / 2; list[m].time <= t {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// pop takes the next record that is ready.
func (q *queue) pop() (e entry, ok bool) {
	if q.next == len(q.ready) {
		return e, false
	}
	e = q.ready[q.next]
	q.next++
	return e, true
}

// sort merges the runs, neighbours by neighbours, until there is one.
func (q *queue) sort() {
	for len(q.runs) > 1 {
		q.scratch = q.scratch[:0]
		runs := q.runs[:0]
		for i := 0; i < len(q.runs); i += 2 {
			begin, middle, end := q.runs[i], len(q.pending), len(q.pending)
			if i+1 < len(q.runs) {
				middle = q.runs[i+1]
			}
			if i+2 < len(q.runs) {
				end = q.runs[i+2]
			}
			runs = append(runs, len(q.scratch))
			q.scratch = merge(q.scratch, q.pending[begin:middle], q.pending[middle:end])
		}
		q.pending, q.scratch, q.runs = q.scratch, q.pending, runs
	}
}

// merge appends two runs as one; of the same time a comes first.
func merge(out, a, b []entry) []entry {
	for len(a) > 0 && len(b) > 0 {
		if b[0].time < a[0].time {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}
