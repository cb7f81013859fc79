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
