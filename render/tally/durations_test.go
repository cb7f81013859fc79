package tally

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs"
)

func TestDurations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 5, exactly, exactly + 1, 5000} {
		var d, half, other Durations
		var all []tracefs.Time
		for i := range n {
			x := tracefs.Time(rnd.Int64N(1 << rnd.IntN(40)))
			all = append(all, x)
			d.Add(x)
			if i%2 == 0 {
				half.Add(x)
			} else {
				other.Add(x)
			}
		}
		half.Merge(&other)
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			want := all[min(max(int(q*float64(n)+0.9999999)-1, 0), n-1)]
			for _, got := range []tracefs.Time{d.Quantile(q), half.Quantile(q)} {
				if got < want || float64(got) > 1.07*float64(want)+1 || n <= exactly && got != want {
					t.Errorf("%d durations: quantile %v is %d, want %d", n, q, got, want)
				}
			}
		}
		if d.Max != all[n-1] || half.Count != int64(n) || half.Max != d.Max {
			t.Errorf("%d durations: max %d, want %d; %d after merging", n, d.Max, all[n-1], half.Count)
		}
		var sum int64
		for _, b := range half.Histogram() {
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
