package lost

import (
	"fmt"
	"slices"

	"ustack/tracefs"
)

// Gaps are the times in which records were lost, on any CPU, in order and
// without overlap, and how many.
type Gaps struct {
	list []gap
	// Records is how many records the kernel counted as lost; Unknown is set if it
	// did not count some gaps.
	Records uint64
	Unknown bool
	// Count is the number of gaps as the trace has them.
	Count int64
}

// gap is a time in which records were lost.
type gap struct{ from, to tracefs.Time }

// maxGaps bounds the list; then the two nearest become one, which can only
// make more uncertain.
const maxGaps = 1 << 14

// Add notes a gap.
func (g *Gaps) Add(from, to tracefs.Time) {
	to = max(from, to)
	first, _ := slices.BinarySearchFunc(g.list, from, func(x gap, t tracefs.Time) int {
		if x.to < t {
			return -1
		}
		return 1
	})
	last := first
	for last < len(g.list) && g.list[last].from <= to {
		from, to = min(from, g.list[last].from), max(to, g.list[last].to)
		last++
	}
	g.list = slices.Replace(g.list, first, last, gap{from, to})
	if len(g.list) > maxGaps {
		g.thin()
	}
}

// thin halves the list.
func (g *Gaps) thin() {
	n := 0
	for i := 0; i < len(g.list); i += 2 {
		x := g.list[i]
		if i+1 < len(g.list) {
			x.to = g.list[i+1].to
		}
		g.list[n] = x
		n++
	}
	g.list = g.list[:n]
}

// Within returns the first and the last moment between two times at which
// records were lost; ok is false if none were.
func (g *Gaps) Within(from, to tracefs.Time) (first, last tracefs.Time, ok bool) {
	i, _ := slices.BinarySearchFunc(g.list, from, func(x gap, t tracefs.Time) int {
		if x.to < t {
			return -1
		}
		return 1
	})
	if i == len(g.list) || g.list[i].from > to {
		return 0, 0, false
	}
	k, _ := slices.BinarySearchFunc(g.list, to, func(x gap, t tracefs.Time) int {
		if x.from <= t {
			return -1
		}
		return 1
	})
	return max(from, g.list[i].from), min(to, g.list[k-1].to), true
}

// Any reports whether anything was lost.
func (g *Gaps) Any() bool { return g.Count > 0 }

// Clone returns a copy.
func (g *Gaps) Clone() *Gaps {
	c := *g
	c.list = slices.Clone(g.list)
	return &c
}

// Check returns what does not hold of the list, for tests.
func (g *Gaps) Check() error {
	if len(g.list) > maxGaps {
		return fmt.Errorf("%d gaps are kept", len(g.list))
	}
	for i, x := range g.list {
		if x.to < x.from || i > 0 && x.from <= g.list[i-1].to {
			return fmt.Errorf("gap %d is %d to %d", i, x.from, x.to)
		}
	}
	return nil
}
