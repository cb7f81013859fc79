package tally

import "ustack/tracefs"

// Tally is how many waits there were, and how long they took.
type Tally struct {
	Count int64
	Time  tracefs.Time
}

// Add adds another one.
func (t *Tally) Add(u Tally) {
	t.Count += u.Count
	t.Time += u.Time
}

// Plus returns the sum of two numbers, of which b is not negative, or the largest number there is:
// a trace can have any.
func Plus[N ~int64](a, b N) N {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}
