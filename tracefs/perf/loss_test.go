package perf

import "testing"

// TestLossOnce: losses are counted once, whether a record or the counter reports
// them first.
func TestLossOnce(t *testing.T) {
	var l loss
	for i, step := range []struct {
		got, want uint64
	}{{l.record(5), 5}, {l.record(2), 2}, {l.report(10), 3}, {l.record(3), 0}, {l.report(10), 0}, {l.record(1), 1}} {
		if step.got != step.want {
			t.Errorf("step %d: %d are new, want %d", i, step.got, step.want)
		}
	}
}
