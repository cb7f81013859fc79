//go:build !device

package whole

import (
	"bytes"
	"slices"
	"time"

	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// newTicks returns an empty ticks.
func newTicks() ticks { return ticks{events: make(map[int32]int32)} }

// ticks are the samples of threads that the timer of a CPU has interrupted, which the trace has
// as events of their own. The two are of the same tick if they are of one thread on one CPU,
// begin at the same place and are no further apart than apartTicks: a timer ticks a thousand
// times a second at most.
type ticks struct {
	waiting []*perf.StackSample
	events  map[int32]int32 // CPU of the last tick of a thread that has no stack yet, by thread
}

const (
	// apartTicks is how far apart the stamps of perf and of the trace are at most.
	apartTicks = tracefs.Time(100 * time.Microsecond)
	// maxTicks bounds the samples that wait for their records.
	maxTicks = 1 << 12
)

// isTick reports whether the text of an event is that of a tick.
func isTick(body []byte) bool { return bytes.HasPrefix(body, []byte("rcu_utilization: Start sch")) }

// ofTick keeps a sample if it is of a tick.
func (s *Stage) ofTick(p *perf.StackSample) bool {
	if s.opt.Ticks == 0 || p.Tracepoint != s.opt.Ticks {
		return false
	}
	if over := s.ticks.add(p); over != nil {
		s.release(over)
	}
	return true
}

// add keeps a sample, and returns one that waits no more, nil if there is none.
func (k *ticks) add(p *perf.StackSample) (over *perf.StackSample) {
	if len(k.waiting) >= maxTicks {
		over = k.waiting[0]
		k.waiting = slices.Delete(k.waiting, 0, 1)
	}
	k.waiting = append(k.waiting, p)
	return over
}

// take returns the sample of a record, nil if there is none.
func (k *ticks) take(tid, cpu int32, t tracefs.Time, pc uint64) *perf.StackSample {
	for i, p := range k.waiting {
		if p.TID != int(tid) || p.CPU != int(cpu) || max(p.Time-t, t-p.Time) > apartTicks {
			continue
		}
		if at, ok := p.Regs.PC(); ok && at == pc {
			k.waiting = slices.Delete(k.waiting, i, i+1)
			return p
		}
	}
	return nil
}

// ticked gives the stacks of ticks in a batch the frames that samples prove.
func (s *Stage) ticked(b *tracefs.Batch, c *Counts) {
	k := &s.ticks
	if s.opt.Ticks == 0 {
		return
	}
	var last tracefs.Time
	for i := range b.Records {
		r := &b.Records[i]
		switch r.Kind {
		case tracefs.KindEvent:
			delete(k.events, r.TID)
			if r.Body < r.End && isTick(b.Text[r.Body:r.End]) && interrupts(b, r) && len(k.events) < maxTicks {
				k.events[r.TID] = r.CPU
			}
		case tracefs.KindStack:
			cpu, ok := k.events[r.TID]
			if !ok || cpu != r.CPU || r.Flags&(tracefs.Deferred|tracefs.Continued|tracefs.Cut) != 0 {
				continue
			}
			delete(k.events, r.TID)
			if t, ok := b.Exact(r); ok {
				last = max(last, t)
				s.tick(b, i, t, c)
			}
		case tracefs.KindLost, tracefs.KindGap:
			clear(k.events)
		}
	}
	k.waiting = slices.DeleteFunc(k.waiting, func(p *perf.StackSample) bool {
		if over := p.Time < last-apartTicks; over {
			s.release(p)
			return true
		}
		return false
	})
}

// withTicks adds the tracepoint of ticks to others.
func (s *Source) withTicks(list []perf.Tracepoint) []perf.Tracepoint {
	return append(slices.Clip(list), perf.Tracepoint{ID: s.opt.Ticks, Filter: instance.Tick})
}

// tick gives the stack of a tick the frames that its sample proves.
func (s *Stage) tick(b *tracefs.Batch, i int, t tracefs.Time, c *Counts) {
	c.Ticks++
	r := &b.Records[i]
	kernel, text := b.StackFrames(r)
	if len(kernel) == 0 {
		return
	}
	p := s.ticks.take(r.TID, r.CPU, t, kernel[0].Address(text))
	if p == nil {
		return
	}
	defer s.release(p)
	_, _, end := s.unwindSample(p)
	if len(s.frames) == 0 {
		return
	}
	s.replaced(b, i, s.frameList(kernel, text, end))
	c.TicksWhole++
	if end.Why == unwind.Short {
		c.TicksShort++
	}
}
