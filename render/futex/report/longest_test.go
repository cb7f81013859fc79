//go:build !device

package report

import (
	"slices"
	"testing"

	"ustack/tracefs"
)

// TestLongest keeps the longest things, of equal ones the first, and drops the others once.
func TestLongest(t *testing.T) {
	dropped := make(map[int]int)
	l := longest[int]{most: 3, drop: func(n *int) { dropped[*n]++ }}
	lengths := []tracefs.Time{5, 1, 9, 9, 2, 9, 7, 9, 0, 3}
	for n := range lengths {
		l.add(&n, lengths[n])
	}
	var kept []int
	l.each(func(n *int) { kept = append(kept, *n) })
	if !slices.Equal(kept, []int{2, 3, 5}) || len(dropped) != len(lengths)-3 {
		t.Errorf("kept %v, dropped %v", kept, dropped)
	}
}

// TestLongestMemory: what is not kept takes no memory.
func TestLongestMemory(t *testing.T) {
	type thing [40]int64
	l := longest[thing]{most: 10, drop: func(*thing) {}}
	var one thing
	add := func() { l.add(&one, 1) }
	for range 100 {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n > 0 {
		t.Errorf("%v pieces of memory for a thing", n)
	}
}
