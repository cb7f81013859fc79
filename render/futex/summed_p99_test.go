package futex_test

import (
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// TestSumP99: 99 of 100 waits are no longer than the percentile, which is the next power of two.
func TestSumP99(t *testing.T) {
	for _, test := range []struct {
		buckets []uint64
		want    tracefs.Time
	}{
		{nil, 0},
		{[]uint64{0, 99}, 0}, // too few
		{[]uint64{0, 0, 99, 1}, 4},
		{[]uint64{0, 0, 98, 2}, 8},
		{[]uint64{0, 0, 990, 0, 0, 10}, 4},
		{[]uint64{0, 0, 989, 0, 0, 11}, 32},
		{[]uint64{0, 0, 0, 0, 100}, 16},
	} {
		if got := (&futex.CallSum{Buckets: test.buckets}).P99(); got != test.want {
			t.Errorf("%v: %d, want %d", test.buckets, got, test.want)
		}
	}
}
