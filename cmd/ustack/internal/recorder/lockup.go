package recorder

import (
	"fmt"
	"slices"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/owners"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/render/futex"
	"ustack/render/record"
)

// deadlocks looks for deadlocks in a trace, as futex --live --owners does.
type deadlocks struct {
	start  *live.Start
	a      *futex.Analysis
	owners *owners.Owners // nil if processes are out of reach
	looked time.Time
	seen   []int32 // threads of the deadlock that it found when it looked last, in order
}

// lookEvery is how often it looks.
const lookEvery = time.Second

// newDeadlocks returns one for a trace that begins.
func newDeadlocks(start *live.Start) *deadlocks {
	opt, d := futex.Options{}, &deadlocks{start: start}
	if p := start.Processes; p != nil {
		opt.Mappings, opt.SharedLate, opt.Programs = p, true, p
		d.owners = owners.New(p)
	}
	d.a = futex.New(opt)
	return d
}

// batch takes records.
func (d *deadlocks) batch(h *resolve.Pending) error { return d.a.Batch(h) }

// found returns the trigger if there is a deadlock that was not there before, with its threads: a
// report does not have the owners that were read. It returns "" if there is none.
func (d *deadlocks) found(now time.Time) (why string) {
	if now.Sub(d.looked) < lookEvery || !d.a.Seen() {
		return ""
	}
	d.looked = now
	if d.owners != nil && d.start.Stopped() == 0 {
		d.read()
	}
	v := d.a.Interim(futex.View{Top: 1}).Verdict
	if v.Kind != futex.Deadlock {
		d.seen = nil
		return ""
	}
	tids := make([]int32, len(v.Tasks))
	for i, task := range v.Tasks {
		tids[i] = task.TID
	}
	before, threads := d.seen, slices.Sorted(slices.Values(tids))
	if d.seen = threads; slices.Equal(threads, before) {
		return ""
	}
	return fmt.Sprintf("%s %v", record.DeadlockTrigger, tids)
}

// read reads the owners of locks: most of those in a deadlock were got without a call. What was
// read counts when the trace shows that the waits went on, which is when it looks again.
func (d *deadlocks) read() {
	if d.start.Idle() { // threads that wait for each other make no records
		d.a.Until(space.Monotonic())
	}
	d.a.Refused(d.start.Refused())
	d.owners.Read(d.a)
}
