package perfdata

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueue: records come out in order of time, those of one time in the order in which
// they came, whatever the rounds are, and nothing is lost. Only a record that comes after
// a later one has gone out is out of order, and is counted.
func TestQueue(t *testing.T) {
	const seeds, records = 200, 300
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var q queue
		var in, out []entry
		take := func() {
			for e, ok := q.pop(); ok; e, ok = q.pop() {
				out = append(out, e)
			}
		}
		marked, late := uint64(0), int64(0)
		for i := range uint32(records) {
			at := 1 + uint64(i)*10 + rng.Uint64N(300)
			if rng.IntN(3) > 0 {
				at = max(at, marked)
			}
			if at < q.passed {
				late++
			}
			q.add(at, place{0, i})
			in = append(in, entry{max(at, q.passed), place{0, i}})
			switch rng.IntN(20) {
			case 0:
				q.mark()
				marked = q.round
				take()
			case 1:
				q.half()
				take()
			}
		}
		q.flush(^uint64(0))
		take()
		slices.SortStableFunc(in, func(a, b entry) int { return cmp.Compare(a.time, b.time) })
		if !slices.Equal(in, out) {
			t.Fatalf("seed %d: %d records in, %d out, or in another order", seed, len(in), len(out))
		}
		if q.unordered != late {
			t.Errorf("seed %d: %d out of order, counted %d", seed, late, q.unordered)
		}
	}
}
