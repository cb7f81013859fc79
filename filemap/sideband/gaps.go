package sideband

import (
	"sync"
	"sync/atomic"

	"ustack/filemap/space"
	"ustack/tracefs"
)

// Gaps are the times of which records are missing.
type Gaps struct {
	mu   sync.RWMutex
	list []gap // in order, not overlapping
	// over is when the last of them ends, 0 if there was none: most times are after
	// it, and need not look further.
	over atomic.Int64
}

// gap is a time of doubt. Records until missed are lost.
type gap struct{ from, missed, to tracefs.Time }

// maxGaps bounds the gaps that are kept; the oldest are joined beyond.
const maxGaps = 1 << 10

// Doubtful reports whether the history may be wrong at a time: records from
// then, or from before, were lost, and the processes were not read again
// before.
func (g *Gaps) Doubtful(t tracefs.Time) bool {
	_, _, doubtful := g.Around(t)
	return doubtful
}

// Around reports whether the history may be wrong at t, from when on no records are
// missing any more, and until when the doubt lasts: space.Forever if unknown yet.
func (g *Gaps) Around(t tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
	if int64(t) >= g.over.Load() {
		return 0, 0, false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for i := len(g.list) - 1; i >= 0 && t < g.list[i].to; i-- {
		if t >= g.list[i].from {
			return g.list[i].missed, g.list[i].to, true
		}
	}
	return 0, 0, false
}

// Lost is Around for gaps that began with a loss: not for one that has been there always,
// as the kernel does not report some changes.
func (g *Gaps) Lost(t tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
	if int64(t) >= g.over.Load() {
		return 0, 0, false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for i := len(g.list) - 1; i >= 0 && t < g.list[i].to; i-- {
		if c := &g.list[i]; t >= c.from {
			return c.missed, c.to, c.from > 0
		}
	}
	return 0, 0, false
}

// Missing reports whether records of the time between two times are lost.
func (g *Gaps) Missing(from, to tracefs.Time) bool {
	if int64(from) >= g.over.Load() {
		return false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for i := len(g.list) - 1; i >= 0 && from < g.list[i].to; i-- {
		if c := &g.list[i]; c.from > 0 && to >= c.from && from <= c.missed {
			return true
		}
	}
	return false
}

// Since reports whether anything was in doubt from a time on.
func (g *Gaps) Since(t tracefs.Time) bool { return int64(t) < g.over.Load() }

// Between reports whether anything was in doubt between two times.
func (g *Gaps) Between(from, to tracefs.Time) bool {
	if int64(from) >= g.over.Load() {
		return false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for i := len(g.list) - 1; i >= 0 && from < g.list[i].to; i-- {
		if to >= g.list[i].from {
			return true
		}
	}
	return false
}

// Open reports whether all is in doubt until Refresh.
func (g *Gaps) Open() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.list) > 0 && g.list[len(g.list)-1].to == space.Forever
}

// from returns when the gap that is open began, 0 if none is.
func (g *Gaps) from() tracefs.Time {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if n := len(g.list); n > 0 && g.list[n-1].to == space.Forever {
		return g.list[n-1].from
	}
	return 0
}

// begin notes that records are missing from a time on until another, and that
// from then on all is in doubt.
func (g *Gaps) begin(from, missed tracefs.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := len(g.list); n > 0 && g.list[n-1].to >= from; n = len(g.list) {
		from, missed = min(from, g.list[n-1].from), max(missed, g.list[n-1].missed)
		g.list = g.list[:n-1]
	}
	if len(g.list) == maxGaps {
		g.list[1].from = g.list[0].from
		g.list = append(g.list[:0], g.list[1:]...)
	}
	g.list = append(g.list, gap{from, missed, space.Forever})
	g.over.Store(int64(space.Forever))
}

// end notes that all is known from a time on.
func (g *Gaps) end(t tracefs.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.list); n > 0 && g.list[n-1].to == space.Forever {
		g.list[n-1].to = max(t, g.list[n-1].from)
		g.over.Store(int64(g.list[n-1].to))
	}
}

// expire forgets the gaps that ended before a time.
func (g *Gaps) expire(before tracefs.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := 0
	for old < len(g.list) && g.list[old].to <= before {
		old++
	}
	g.list = append(g.list[:0], g.list[old:]...)
}
