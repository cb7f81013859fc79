package futex

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs"
)

func TestDurations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 5, exactly, exactly + 1, 5000} {
		var d, half, other durations
		var all []tracefs.Time
		for i := range n {
			x := tracefs.Time(rnd.Int64N(1 << rnd.IntN(40)))
			all = append(all, x)
			d.add(x)
			if i%2 == 0 {
				half.add(x)
			} else {
				other.add(x)
			}
		}
		half.merge(&other)
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			want := all[min(max(int(q*float64(n)+0.9999999)-1, 0), n-1)]
			for _, got := range []tracefs.Time{d.quantile(q), half.quantile(q)} {
				if got < want || float64(got) > 1.07*float64(want)+1 || n <= exactly && got != want {
					t.Errorf("%d durations: quantile %v is %d, want %d", n, q, got, want)
				}
			}
		}
		if d.max != all[n-1] || half.count != int64(n) || half.max != d.max {
			t.Errorf("%d durations: max %d, want %d; %d after merging", n, d.max, all[n-1], half.count)
		}
		var sum int64
		for _, b := range half.histogram() {
			sum += b.Count
			in := int64(0)
			for _, x := range all {
				if x >= b.From && (x < 2*b.From || b.From == 0 && x < 2) {
					in++
				}
			}
			if in != b.Count {
				t.Errorf("%d durations from %d on, want %d", b.Count, b.From, in)
			}
		}
		if sum != int64(n) {
			t.Errorf("the histogram has %d, want %d", sum, n)
		}
	}
}

// TestGaps compares with gaps that are not merged.
func TestGaps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var g Gaps
		var all []gap
		for range rnd.IntN(12) {
			from := tracefs.Time(rnd.Int64N(100))
			x := gap{from, from + tracefs.Time(rnd.Int64N(20))}
			g.add(x.from, x.to)
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
			f, l, found := g.within(from, to)
			if found != ok || ok && (f != first || l != last) {
				t.Fatalf("%v: within %d to %d: %d %d %v, want %d %d %v", all, from, to, f, l, found, first, last, ok)
			}
		}
	}
	var g Gaps
	for i := range tracefs.Time(3 * maxGaps) {
		g.add(10*i, 10*i+1)
	}
	if len(g.list) > maxGaps {
		t.Errorf("%d gaps are kept", len(g.list))
	}
	for i := range tracefs.Time(3 * maxGaps) {
		if _, _, ok := g.within(10*i, 10*i); !ok {
			t.Fatalf("the gap at %d is gone", 10*i)
		}
	}
}
