package tally

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWeighted simulates 1,000 devices again and again, of which each sends its report with a
// probability: the true total is within the bounds at least 95 times of 100, whatever devices
// have, and the mean of the estimates is the total.
func TestWeighted(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 7))
	const rounds, devices = 400, 1000
	for name, has := range map[string]func() float64{
		"the same":    func() float64 { return 5 },
		"exponential": r.ExpFloat64,
		"lognormal 1": func() float64 { return math.Exp(r.NormFloat64()) },
		"lognormal 2": func() float64 { return math.Exp(2 * r.NormFloat64()) },
		"Pareto":      func() float64 { return math.Pow(1-r.Float64(), -1/1.5) },
		"one in 20":   func() float64 { return r.ExpFloat64() * float64(r.IntN(20)/19) },
	} {
		for _, p := range []float64{0.05, 0.1, 0.3, 0.5, 1} {
			within, bounded, off := 0, 0, 0.0
			for range rounds {
				var w Weighted
				total := 0.0
				for range devices {
					y := has()
					total += y
					// Half of the devices have a probability of their own, which is higher.
					own := p
					if r.IntN(2) == 0 {
						own = math.Sqrt(p)
					}
					if y > 0 && r.Float64() < own {
						w.Add(1/own, y)
					}
				}
				low, high := w.Bounds()
				const rounding = 1e-9
				if low <= total*(1+rounding) && total <= high*(1+rounding) {
					within++
				}
				if !math.IsInf(high, 1) {
					bounded++
				}
				off += (w.Total/total - 1) / rounds
			}
			t.Logf("%s, %.2f: within %d of %d, %d bounded, mean off by %.1f %%", name, p, within, rounds, bounded, 100*off)
			if within*100 < rounds*95 {
				t.Errorf("%s, %.2f: the total is within the bounds in %d of %d", name, p, within, rounds)
			}
			if name != "one in 20" && bounded < rounds {
				t.Errorf("%s, %.2f: an upper bound in %d of %d only", name, p, bounded, rounds)
			}
			if math.Abs(off) > 0.1 {
				t.Errorf("%s, %.2f: estimates are off by %.2f", name, p, off)
			}
		}
	}
}

// TestWeightedBounds: without a weight, the total is exact; of few units there is no upper bound,
// and the lower one is no less than what was seen.
func TestWeightedBounds(t *testing.T) {
	var w Weighted
	if low, high := w.Bounds(); low != 0 || high != 0 {
		t.Errorf("of nothing: %g to %g", low, high)
	}
	w.Add(1, 3)
	w.Add(1, 4)
	if low, high := w.Bounds(); low != 7 || high != 7 || w.Total != 7 {
		t.Errorf("exact: %g, %g to %g", w.Total, low, high)
	}
	for range 9 {
		w.Add(100, 1)
	}
	if low, high := w.Bounds(); low < 16 || low > w.Total || !math.IsInf(high, 1) || w.Total != 907 {
		t.Errorf("few: %g, %g to %g", w.Total, low, high)
	}
	w.Add(100, 1)
	if low, high := w.Bounds(); low < 17 || low > w.Total || high < w.Total || math.IsInf(high, 1) {
		t.Errorf("more: %g, %g to %g", w.Total, low, high)
	}
}
