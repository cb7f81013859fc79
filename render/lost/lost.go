// Package lost knows which parts of a trace were lost: for reports that say what that
// makes uncertain.
package lost

import (
	"fmt"
	"iter"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// Time is a time in which records of a CPU were lost, of one of the ring
// buffers of the trace. Records is how many, 0 if the kernel has not counted them.
// CPU is tracefs.NoCPU if unknown.
type Time struct {
	Buffer   int
	CPU      int32
	From, To tracefs.Time
	Records  uint64
}

// Losses knows the time that a trace spans, and which parts of it were lost.
//
// Invariants:
//   - Start ≤ End if there was a record.
//   - Gaps are in order and do not overlap; there are no more than maxGaps.
//   - No CPU's last record is after End, unless records of it were lost since.
type Losses struct {
	Gaps       Gaps
	Start, End tracefs.Time
	Begun      bool // there was a record
	Ticks      bool // the clock does not count nanoseconds
	Known      bool // all gaps are known beforehand: Gaps does not change

	// Ended takes each time of loss, Disturbed the beginning of each gap that becomes
	// known; nil if that is not wanted.
	Ended     func(*Time)
	Disturbed func(from tracefs.Time)

	cpus   [][]cpu // by input
	events int64   // that Batch has passed
}

// Check returns what of the invariants does not hold, for tests.
func (ls *Losses) Check() error {
	if ls.Begun && ls.Start > ls.End {
		return fmt.Errorf("the trace begins at %d and ends at %d", ls.Start, ls.End)
	}
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			if c := &ls.cpus[s][n]; c.seen && !c.lost && c.last > ls.End {
				return fmt.Errorf("CPU %d of input %d has a record at %d, after the end %d", n, s, c.last, ls.End)
			}
		}
	}
	return ls.Gaps.Check()
}

// cpu is the state of one CPU of one input.
type cpu struct {
	last tracefs.Time // of its last record in earlier batches
	rec  int32        // its last record in this batch, plus 1
	seen bool
	lost bool // a gap has begun
	// records is how many were lost since, as far as the kernel has counted them.
	records uint64
}

// MaxCPU bounds the numbers of CPUs.
const MaxCPU = 1 << 13

func (ls *Losses) cpu(rec *tracefs.Record) *cpu {
	s := int(rec.Source)
	for len(ls.cpus) <= s {
		ls.cpus = append(ls.cpus, nil)
	}
	n := int(rec.CPU) & (MaxCPU - 1)
	for len(ls.cpus[s]) <= n {
		ls.cpus[s] = append(ls.cpus[s], cpu{})
	}
	return &ls.cpus[s][n]
}

// Seen notes that a CPU has a record.
func (ls *Losses) Seen(h *resolve.Pending, i int, rec *tracefs.Record) {
	if rec.CPU < 0 || !h.Headed(rec) {
		return
	}
	s := int(rec.Source)
	if s >= len(ls.cpus) || int(rec.CPU) >= len(ls.cpus[s]) {
		ls.cpu(rec)
	}
	c := &ls.cpus[s][int(rec.CPU)&(MaxCPU-1)]
	c.rec = int32(i) + 1
	if c.lost || !ls.Begun {
		ls.afterGap(h, rec, c)
	}
}

// afterGap takes the first record of the trace, and the first one of a CPU
// after a gap.
func (ls *Losses) afterGap(h *resolve.Pending, rec *tracefs.Record, c *cpu) {
	t := h.Time(rec)
	if !ls.Begun {
		ls.Begun, ls.Start, ls.End = true, t, t
		ls.Ticks = !h.Heads[rec.Source].Nanoseconds()
	}
	if !c.lost {
		return
	}
	c.lost = false
	from := ls.since(c)
	ls.gapEnded(Time{int(rec.Source), rec.CPU, from, t, c.records})
	c.records = 0
	if ls.Known {
		return
	}
	ls.Gaps.Add(from, t)
	ls.disturbed(from)
}

// Lost notes a gap. It ends with the next record of the CPU.
func (ls *Losses) Lost(h *resolve.Pending, rec *tracefs.Record) {
	if rec.Kind == tracefs.KindLost && rec.CPU < 0 {
		return // overwritten before the trace began
	}
	if !ls.Known {
		ls.Gaps.Count++
		switch {
		case rec.Kind == tracefs.KindGap && rec.CPU < 0:
			ls.Gaps.Records++ // [LINE TOO BIG]
		case rec.Value > 0:
			ls.Gaps.Records += rec.Value
		default:
			ls.Gaps.Unknown = true
		}
	}
	if rec.CPU < 0 { // one record of any CPU
		ls.gapEnded(Time{int(rec.Source), rec.CPU, ls.End, ls.End, 1})
		if ls.Begun && !ls.Known {
			ls.SettleTimes(h)
			ls.Gaps.Add(ls.End, ls.End)
			ls.disturbed(ls.End)
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

// SettleTimes reads the times of the CPUs' last records.
func (ls *Losses) SettleTimes(h *resolve.Pending) {
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			c := &ls.cpus[s][n]
			if c.rec > 0 {
				c.last, c.seen, c.rec = h.Time(&h.Records[c.rec-1]), true, 0
				ls.End = max(ls.End, c.last)
			}
		}
	}
}

// Beginning returns when the trace begins, for a caller with a record of time t,
// which may be the first one.
func (ls *Losses) Beginning(t tracefs.Time) tracefs.Time {
	if !ls.Begun {
		return t
	}
	return ls.Start
}

// gapEnded passes a time in which records were lost.
func (ls *Losses) gapEnded(g Time) {
	if ls.Ended != nil {
		g.To = max(g.From, g.To)
		ls.Ended(&g)
	}
}

// since returns when the last loss of a CPU began.
func (ls *Losses) since(c *cpu) tracefs.Time {
	if c.seen {
		return c.last
	}
	return ls.Start
}

// Open returns the beginnings of the gaps that no record has ended.
func (ls *Losses) Open() iter.Seq[tracefs.Time] {
	return func(yield func(tracefs.Time) bool) {
		if ls.Known {
			return
		}
		for s := range ls.cpus {
			for n := range ls.cpus[s] {
				if c := &ls.cpus[s][n]; c.lost && !yield(ls.since(c)) {
					return
				}
			}
		}
	}
}

// Close ends the gaps that no record has ended, at the end of the trace.
func (ls *Losses) Close() {
	for from := range ls.Open() {
		ls.Gaps.Add(from, ls.End)
		ls.disturbed(from)
	}
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			if c := &ls.cpus[s][n]; c.lost {
				ls.gapEnded(Time{s, int32(n), ls.since(c), ls.End, c.records})
				c.lost = false
			}
		}
	}
}

// disturbed passes the beginning of a gap.
func (ls *Losses) disturbed(from tracefs.Time) {
	if ls.Disturbed != nil {
		ls.Disturbed(from)
	}
}

// Low returns the time before which no gap begins that is not known yet, as of the last
// SettleTimes.
func (ls *Losses) Low() tracefs.Time {
	low := ls.End
	for s := range ls.cpus {
		for n := range ls.cpus[s] {
			if c := &ls.cpus[s][n]; c.seen {
				low = min(low, c.last)
			}
		}
	}
	return low
}
