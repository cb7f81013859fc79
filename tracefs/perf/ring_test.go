package perf

import (
	"os"
	"testing"
)

// TestRingFilledMeanwhile: a ring that the kernel fills while it is copied was full, else a loss
// of which no record came would be noticed with the next record only.
func TestRingFilledMeanwhile(t *testing.T) {
	const size = 32 << 10
	for name, c := range map[string]struct {
		before, meanwhile uint64
		full              bool
	}{
		"never":                 {size - 2*maxRecord, maxRecord / 2, false},
		"before":                {size - maxRecord/2, 0, true},
		"meanwhile":             {size - 2*maxRecord, 2*maxRecord - 8, true},
		"and more after it":     {size - 2*maxRecord, size, true},
		"with room for one yet": {size - 2*maxRecord, maxRecord, false},
	} {
		r := RingOf(0, make([]byte, os.Getpagesize()+size))
		*r.head = c.before
		b, tail, head := r.copied(nil)
		*r.head += c.meanwhile
		if full := r.release(tail, head); full != c.full || len(b) != int(c.before) {
			t.Errorf("%s: full %v, %d bytes, want %v, %d", name, full, len(b), c.full, c.before)
		}
	}
}
