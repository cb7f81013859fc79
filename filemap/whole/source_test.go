package whole

import (
	"testing"

	"ustack/tracefs"
)

// TestTooMany: few samples never make sampling pause, however late the trace is read;
// many do if it is late, and too many always.
func TestTooMany(t *testing.T) {
	const perWindow = 1000
	for _, c := range []struct {
		sampled int
		late    tracefs.Time
		want    bool
	}{
		{0, 1e9, false}, {perWindow / 4, 1e9, false}, {perWindow/4 + 1, lateRead, false}, {perWindow/4 + 1, lateRead + 1, true},
		{perWindow, 0, false}, {perWindow + 1, 0, true},
	} {
		if got := tooMany(c.sampled, perWindow, c.late); got != c.want {
			t.Errorf("%d samples, read %d ns late: %t", c.sampled, c.late, got)
		}
	}
}

// TestLastTime is the time of the last record that has one.
func TestLastTime(t *testing.T) {
	b := tracefs.Batch{Origins: []tracefs.Origin{{Exact: 5}, {Exact: 7}},
		Records: []tracefs.Record{{Kind: tracefs.KindEvent, Origin: 1}, {Kind: tracefs.KindEvent, Origin: 2}, {Kind: tracefs.KindLost}}}
	if got := lastTime(&b); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	if got := lastTime(&tracefs.Batch{}); got != 0 {
		t.Errorf("of no record: %d", got)
	}
}
