package diff

import "math"

// estimate is a value with how much it varies by chance: the variance, and the degrees of
// freedom that this was estimated with.
type estimate struct{ value, variance, freedom float64 }

// Without slices, as in reports of older programs, waits are assumed to come in bursts of
// this many.
const (
	burst        = 4
	burstFreedom = 8
)

// estimate returns the value of a side by a norm.
func (s *side) estimate(norm Norm, d *document) estimate {
	length := float64(d.length())
	if norm == PerWait {
		if s.waits == 0 {
			return estimate{freedom: burstFreedom}
		}
		mean := s.time / s.waits
		v, freedom := s.vary(d, mean, max(s.squares-s.waits*mean*mean, 0))
		return estimate{mean, v / (s.waits * s.waits), freedom}
	}
	v, freedom := s.vary(d, 0, s.squares)
	if norm == Total {
		return estimate{s.time, v, freedom}
	}
	return estimate{s.time / length, v / (length * length), freedom}
}

// vary returns the variance of the sum of the slices, each less its waits times a mean. It is
// not less than what it would be if waits came independently.
func (s *side) vary(d *document, mean, independent float64) (variance, freedom float64) {
	n := int(d.lastSlice()) + 1
	if d.SliceTime == 0 || n < 2 {
		return burst * independent, burstFreedom
	}
	x := make([]float64, n)
	sum := 0.0
	for i := range x {
		x[i] = s.slices[i].time - mean*s.slices[i].waits
		sum += x[i]
	}
	average := sum / float64(n)
	squares, next := 0.0, 0.0
	for i := range x {
		x[i] -= average
		squares += x[i] * x[i]
		if i > 0 {
			next += x[i] * x[i-1]
		}
	}
	v := squares / float64(n-1) * float64(n)
	if squares > 0 {
		const most = 0.8
		r := min(max(next/squares, 0), most) // slices next to each other are alike
		v *= (1 + r) / (1 - r)
	}
	return max(v, independent) + s.shared, float64(n - 1)
}

// margin returns by how much two estimates can differ by chance at a level, by Welch's test.
func margin(a, b estimate, level float64) float64 {
	v := a.variance + b.variance
	if v == 0 {
		return 0
	}
	freedom := v * v / (a.variance*a.variance/a.freedom + b.variance*b.variance/b.freedom)
	return quantile(1-level/2, freedom) * math.Sqrt(v)
}

// quantile returns that of Student's distribution, by its expansion for large degrees of
// freedom (Abramowitz and Stegun, 26.7.5): with at least 8 of them, the level differs from the
// true one by less than 5 % of it, from 1e-5 on.
func quantile(p, freedom float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	z2 := z * z
	g1 := (z2 + 1) * z / 4
	g2 := ((5*z2+16)*z2 + 3) * z / 96
	g3 := (((3*z2+19)*z2+17)*z2 - 15) * z / 384
	g4 := ((((79*z2+776)*z2+1482)*z2-1920)*z2 - 945) * z / 92160
	return z + (g1+(g2+(g3+g4/freedom)/freedom)/freedom)/freedom
}
