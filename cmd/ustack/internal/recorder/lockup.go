package recorder

import (
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render/futex"
)

// deadlocks looks for deadlocks in a trace, as futex --live does.
type deadlocks struct {
	a      *futex.Analysis
	looked time.Time
	seen   bool // when it looked last
}

// lookEvery is how often it looks.
const lookEvery = time.Second

// newDeadlocks returns one for a trace that begins.
func newDeadlocks(start *live.Start) *deadlocks {
	opt := futex.Options{}
	if p := start.Processes; p != nil {
		opt.Mappings, opt.SharedLate, opt.Programs = p, true, p
	}
	return &deadlocks{a: futex.New(opt)}
}

// batch takes records.
func (d *deadlocks) batch(h *resolve.Pending) error { return d.a.Batch(h) }

// found reports whether there is a deadlock that was not there before.
func (d *deadlocks) found(now time.Time) bool {
	if now.Sub(d.looked) < lookEvery || !d.a.Seen() {
		return false
	}
	before := d.seen
	d.looked, d.seen = now, d.a.Interim(futex.View{Top: 1}).Verdict.Kind == futex.Deadlock
	return d.seen && !before
}
