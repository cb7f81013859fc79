package live

import (
	"testing"
	"time"

	"ustack/filemap"
	"ustack/filemap/resolve"
)

// TestRenewal: the kernel is asked to announce again what stays unannounced, but not
// each time, and not again for what it has not announced then.
func TestRenewal(t *testing.T) {
	var r renewal
	var totals resolve.Totals
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		unannounced, lost int64 // frames, in all
		wait              time.Duration
		want              bool
	}{
		{0, 0, 0, false},
		{1, 0, 0, true},
		{1, 0, time.Hour, false},
		{2, 0, 0, true},
		{2, 1, renewEvery / 2, false},
		{2, 1, renewEvery / 2, true},
		{2, 1, time.Hour, false},
	} {
		now = now.Add(step.wait)
		totals.Reasons[filemap.Unannounced], totals.Reasons[filemap.Lost] = step.unannounced, step.lost
		if got := r.due(&totals, now); got != step.want {
			t.Errorf("step %d: due is %v", i, got)
		}
	}
}
