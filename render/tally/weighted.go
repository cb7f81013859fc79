package tally

import "math"

// Weighted estimates a total over units, such as reports, of which each is seen with a
// probability of its own, independent of what it has. A unit that is seen with probability p
// stands for 1/p, its weight (Horvitz and Thompson, 1952).
type Weighted struct {
	Total    float64 // the estimate, which is right on average
	seen     float64 // what units have that are seen: the total is no less
	variance float64
	largest  float64 // what a unit adds to the total, of those with a weight above 1
	sampled  int     // units with a weight above 1
}

// MaxWeight bounds a weight.
const MaxWeight = 1e6

// Add adds what a unit has, with its weight of at least 1.
func (w *Weighted) Add(weight, has float64) {
	w.Total += weight * has
	w.seen += has
	if weight <= 1 {
		return
	}
	w.sampled++
	w.variance += weight * (weight - 1) * has * has
	w.largest = max(w.largest, weight*has)
}

const (
	// deviations is how many standard deviations the bounds are away: more than the 2 of 95 %,
	// as what units have is skewed.
	deviations = 3
	// unseenTimes is how many times the largest unit may be among those that are not seen.
	unseenTimes = 2
	// leastSampled units are needed for an upper bound.
	leastSampled = 10
)

// Bounds returns the bounds of the total, which is between them at least 95 times of 100
// (TestWeighted). They are those of a gamma distribution, as of Fay and Feuer (1997), Confidence
// intervals for directly standardized rates; high is infinite if too few units are seen for a
// bound, and both are the total if no unit has a weight above 1.
func (w *Weighted) Bounds() (low, high float64) {
	if w.sampled == 0 {
		return w.Total, w.Total
	}
	low = max(w.seen, gamma(w.Total, w.variance, -deviations))
	if w.sampled < leastSampled {
		return low, math.Inf(1)
	}
	more := unseenTimes * w.largest
	return low, max(low, gamma(w.Total+more, w.variance+more*more, deviations))
}

// gamma returns the value of a gamma distribution that is as far from its mean as a number of
// standard deviations of the normal one (Wilson and Hilferty, 1931).
func gamma(mean, variance, deviations float64) float64 {
	if mean <= 0 {
		return 0
	}
	ninth := variance / (mean * mean) / 9
	return mean * math.Pow(max(0, 1-ninth+deviations*math.Sqrt(ninth)), 3)
}
