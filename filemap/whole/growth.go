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
	// mostGrowth is how many times as much it then is at most. A single frame can need
	// that: buffers of many kilobytes are common.
	mostGrowth = 4
	// large copies grow by what is needed and little more: each takes its size in the ring
	// buffer, however much of it the kernel has copied.
	large, stackStep = 16 << 10, 4 << 10
)

// growth decides how much of a stack is copied. Only copies of that size count: after it
// has grown, smaller ones are still on their way.
type growth struct {
	size         int
	most         int    // that it may be, 0 for what the kernel copies
	whole, short uint64 // copies of this size that were long enough, and that were not
	want         uint64 // the least that one of the short ones needed to get further
}

// copied notes a copy of so many bytes, and how many more were needed to get further, 0 for
// none.
func (g *growth) copied(bytes int, more uint64) {
	switch {
	case bytes < g.size:
	case more > 0:
		if g.short == 0 {
			g.want = uint64(bytes) + more
		}
		g.short++
		g.want = min(g.want, uint64(bytes)+more)
	default:
		g.whole++
	}
}

// due reports whether more is to be copied.
func (g *growth) due() bool {
	return g.size < g.limit() && g.short >= shortsMost && g.short*shortsPart >= g.whole
}

// grown is what comes after it.
func (g *growth) grown() growth {
	next := 2 * g.size
	if least := g.size + g.size/4; g.size >= large {
		next = max(least, int(min(g.want/stackStep+2, perf.MaxStack/stackStep))*stackStep)
	}
	for g.size < large && next < mostGrowth*g.size && uint64(next) < g.want {
		next *= 2
	}
	return growth{size: min(next, g.limit()), most: g.most}
}

// ringFor returns the room on each of the CPUs for copies of a size. perf's default has room
// for a hundred of the large ones, which are made within some milliseconds: there is four
// times as much, unless that is more than ringsMost on all CPUs.
func ringFor(size, cpus int) int {
	const ringsMost, times = 64 << 20, 4
	if ring := times * perf.DefaultSamplerRing; size > large && ring*cpus <= ringsMost {
		return ring
	}
	return perf.DefaultSamplerRing
}

func (g *growth) limit() int { return cmp.Or(g.most, perf.MaxStack) }
