package resolve

import (
	"ustack/filemap"
)

// Missing is why a requested stack is not there.
type Missing uint8

const (
	// NotMissing: it is there, or was never asked for.
	NotMissing Missing = iota
	// Blocked: the task had not returned to user space when the trace ended.
	Blocked
	// LostStack: records were lost between the request and the task's next.
	LostStack
	// Dropped: the task went on, nothing was lost, and no stack came: the
	// kernel drops a stack too deep for a record.
	Dropped
	// Refused: the kernel refused (cookie 0: a task that exits).
	Refused
	// PendingTooLong: it came later than the limits for buffering events; it stands by
	// itself.
	PendingTooLong
	// Forgot: there were more tasks than ustack keeps.
	Forgot

	missingCount
)

// MissingCount is the number of values of Missing.
const MissingCount = int(missingCount)

var missingNames = [...]string{"", "blocked", "lost", "dropped", "refused", "held-too-long", "forgotten"}

// String returns the word used in all outputs.
func (m Missing) String() string { return missingNames[m] }

// Loss is the loss on a CPU.
type Loss struct {
	// Gaps is the number of places, Records the sum of the counts; Unknown is set
	// if a gap had no count.
	Gaps    int64
	Records uint64
	Unknown bool
}

// Totals are the sums over a whole trace.
type Totals struct {
	Events           int64 // records that are no cookie, stack or mapping event
	Stacks           int64
	Cut              int64 // stacks whose text was cut
	Orphans          int64 // deferred stacks whose request is not in the trace
	Frames           int64
	Trusts           [filemap.TrustCount]int64  // frames with a file
	Reasons          [filemap.ReasonCount]int64 // frames without
	Files            int                        // distinct files of frames
	MappingEvents    int64
	BadMappingEvents int64
	Rebound          int64 // mapping events that changed an identifier's meaning
	Requests         int64 // distinct cookies that were given out
	Missing          [MissingCount]int64
	PendingTooLong   int64 // events whose stack came too late for them (stitching)
	// Stackless are the events without a stack, by why (stitching): NotMissing
	// counts events for which the trace has neither a stack nor a request.
	Stackless [MissingCount]int64
	Lost      map[int32]Loss // by CPU
	Gaps      int64          // places where records may be missing, without a count

	// waits are the stacks of futex calls that can wait, all and unwound count in a trace
	// that has none so far.
	waits, all, unwound Reaches
}

// Resolved returns the number of frames with a file.
func (t *Totals) Resolved() int64 {
	var n int64
	for _, v := range t.Trusts {
		n += v
	}
	return n
}

// LostRecords returns the sum over the CPUs. It is a lower bound if a gap had
// no count.
func (t *Totals) LostRecords() (n uint64, exact bool) {
	exact = true
	for _, l := range t.Lost {
		n += l.Records
		exact = exact && !l.Unknown
	}
	return n, exact
}

// tally counts the batches that have gone out.
//
// Invariants: each frame has a file of some trust, or a reason. No stack goes farther than
// there are stacks.
type tally struct {
	totals Totals // but what the other parts count
	far    Far    // of the stack that is counted
	files  *filemap.Files
}

// count adds up the attributions of a batch that goes out.
func (r *tally) count(h *Pending) {
	r.countShares(h)
	r.countAttributions(h.Attributions)
	for trust, n := range h.named {
		r.totals.Frames += n
		r.totals.Trusts[trust] += n
	}
	for _, res := range h.mixed {
		r.countAttributions(res.Attributions)
	}
	clear(h.mixed)
}

func (r *tally) countAttributions(out []Attribution) {
	t := &r.totals
	t.Frames += int64(len(out))
	for i := range out {
		if o := &out[i]; o.File != nil {
			t.Trusts[o.Trust]++
			r.files.MarkUsed(o.File)
		} else {
			t.Reasons[o.Reason]++
		}
	}
}
