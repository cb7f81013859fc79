package whole

import (
	"cmp"

	"ustack/tracefs/perf"
)

// Sizes of the copy of a stack, in bytes.
const (
	firstStack = 2 << 10
	// shortsMost is how many copies may be too short before more is copied, and
	// shortsPart as what part of all.
	shortsMost, shortsPart = 4, 50
)

// growth decides how much of a stack is copied. Only copies of that size count: after it
// has grown, smaller ones are still on their way.
type growth struct {
	size         int
	most         int    // that it may be, 0 for what the kernel copies
	whole, short uint64 // copies of this size that were long enough, and that were not
}

// copied notes a copy of so many bytes, and whether the stack went on after it.
func (g *growth) copied(bytes int, short bool) {
	switch {
	case bytes < g.size:
	case short:
		g.short++
	default:
		g.whole++
	}
}

// due reports whether more is to be copied.
func (g *growth) due() bool {
	return g.size < g.limit() && g.short >= shortsMost && g.short*shortsPart >= g.whole
}

// grown is what comes after it.
func (g *growth) grown() growth { return growth{size: min(2*g.size, g.limit()), most: g.most} }

func (g *growth) limit() int { return cmp.Or(g.most, perf.MaxStack) }
