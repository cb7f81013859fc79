package lost

import (
	"math/rand/v2"
	"testing"

	"ustack/tracefs"
)

// TestGaps compares with gaps that are not merged.
func TestGaps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var g Gaps
		var all []gap
		for range rnd.IntN(12) {
			from := tracefs.Time(rnd.Int64N(100))
			x := gap{from, from + tracefs.Time(rnd.Int64N(20))}
			g.Add(x.from, x.to)
			all = append(all, x)
		}
		for from := tracefs.Time(0); from < 120; from += 3 {
			to := from + tracefs.Time(rnd.Int64N(30))
			first, last, ok := to+1, from-1, false
			for _, x := range all {
				if x.to >= from && x.from <= to {
					ok, first, last = true, min(first, max(from, x.from)), max(last, min(to, x.to))
				}
			}
			f, l, found := g.Within(from, to)
			if found != ok || ok && (f != first || l != last) {
				t.Fatalf("%v: within %d to %d: %d %d %v, want %d %d %v", all, from, to, f, l, found, first, last, ok)
			}
		}
	}
	var g Gaps
	for i := range tracefs.Time(3 * maxGaps) {
		g.Add(10*i, 10*i+1)
	}
	if len(g.list) > maxGaps {
		t.Errorf("%d gaps are kept", len(g.list))
	}
	for i := range tracefs.Time(3 * maxGaps) {
		if _, _, ok := g.Within(10*i, 10*i); !ok {
			t.Fatalf("the gap at %d is gone", 10*i)
		}
	}
}
