package futex

import (
	"slices"

	"ustack/filemap/resolve"
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

// add notes a gap.
func (g *Gaps) add(from, to tracefs.Time) {
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

// within returns the first and the last moment between two times at which
// records were lost; ok is false if none were.
func (g *Gaps) within(from, to tracefs.Time) (first, last tracefs.Time, ok bool) {
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

// cpu is the state of one CPU of one input.
type cpu struct {
	last tracefs.Time // of its last record in earlier batches
	rec  int32        // its last record in this batch, plus 1
	seen bool
	lost bool // a gap has begun
	// records is how many were lost since, as far as the kernel has counted them.
	records uint64
}

const maxCPU = 1 << 13

func (ls *losses) cpu(rec *tracefs.Record) *cpu {
	s := int(rec.Source)
	for len(ls.cpus) <= s {
		ls.cpus = append(ls.cpus, nil)
	}
	n := int(rec.CPU) & (maxCPU - 1)
	for len(ls.cpus[s]) <= n {
		ls.cpus[s] = append(ls.cpus[s], cpu{})
	}
	return &ls.cpus[s][n]
}

// seen notes that a CPU has a record.
func (ls *losses) seen(h *resolve.Pending, i int, rec *tracefs.Record) {
	if rec.CPU < 0 || !h.Headed(rec) {
		return
	}
	s := int(rec.Source)
	if s >= len(ls.cpus) || int(rec.CPU) >= len(ls.cpus[s]) {
		ls.cpu(rec)
	}
	c := &ls.cpus[s][int(rec.CPU)&(maxCPU-1)]
	c.rec = int32(i) + 1
	if c.lost || !ls.begun {
		ls.afterGap(h, rec, c)
	}
}

// afterGap takes the first record of the trace, and the first one of a CPU
// after a gap.
func (ls *losses) afterGap(h *resolve.Pending, rec *tracefs.Record, c *cpu) {
	t := h.Time(rec)
	if !ls.begun {
		ls.begun, ls.start, ls.end = true, t, t
		ls.ticks = !h.Heads[rec.Source].Nanoseconds()
	}
	if !c.lost {
		return
	}
	c.lost = false
	from := ls.since(c)
	ls.gapEnded(LostTime{int(rec.Source), rec.CPU, from, t, c.records})
	c.records = 0
	if ls.spans.known {
		return
	}
	ls.gaps.add(from, t)
	ls.spans.disturbed(from)
}

// lost notes a gap. It ends with the next record of the CPU.
func (ls *losses) lost(h *resolve.Pending, rec *tracefs.Record) {
	if rec.Kind == tracefs.KindLost && rec.CPU < 0 {
		return // overwritten before the trace began
	}
	if !ls.spans.known {
		ls.gaps.Count++
		switch {
		case rec.Kind == tracefs.KindGap && rec.CPU < 0:
			ls.gaps.Records++ // [LINE TOO BIG]
		case rec.Value > 0:
			ls.gaps.Records += rec.Value
		default:
			ls.gaps.Unknown = true
		}
	}
	if rec.CPU < 0 { // one record of any CPU
		ls.gapEnded(LostTime{int(rec.Source), rec.CPU, ls.end, ls.end, 1})
		if ls.begun && !ls.spans.known {
			ls.settleTimes(h)
			ls.gaps.add(ls.end, ls.end)
			ls.spans.disturbed(ls.end)
		}
		return
	}
	c := ls.cpu(rec)
	if c.rec > 0 {
		c.last, c.seen, c.rec = h.Time(&h.Records[c.rec-1]), true, 0
	}
	c.lost = true
	c.records += rec.Value
}

// settleTimes reads the times of the CPUs' last records.
func (ls *losses) settleTimes(h *resolve.Pending) {
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			c := &ls.cpus[s][n]
			if c.rec > 0 {
				c.last, c.seen, c.rec = h.Time(&h.Records[c.rec-1]), true, 0
				ls.end = max(ls.end, c.last)
			}
		}
	}
}

// settleUp brings the CPUs up to date, and settles spans that no later gap can
// reach.
func (ls *losses) settleUp(h *resolve.Pending) {
	ls.settleTimes(h)
	low := ls.end
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			if c := &ls.cpus[s][n]; c.seen {
				low = min(low, c.last)
			}
		}
	}
	ls.settle(low)
}
