package futex

import (
	"bytes"
	"cmp"

	"ustack/filemap/resolve"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Sampled is a place where owners ran: in how many samples they were there. A sample is where
// the tick of a CPU's timer interrupted a thread, 100 to 1000 times in each second that it ran.
type Sampled struct {
	Stack *Stack // nil if the trace has none, or too many are kept
	Count int64
}

// Bounds of memory: samples that are kept until the holds end that they may be of, and
// different stacks of the samples of a lock and of one hold. What is beyond them has no place.
const (
	maxSamples    = 1 << 16
	maxSampled    = 1 << 12
	sampledInHold = 1 << 6
	sampledDepth  = 6
)

// sample is where a thread was when the timer interrupted it.
type sample struct {
	at         tracefs.Time
	tid, stack int32
}

// samples are the last ones of all threads, in order of time.
//
// Invariants:
//   - There are no more than maxSamples.
//   - None is after the next one.
type samples struct{ list []sample }

// add adds a sample, most often after all others.
func (s *samples) add(x sample) {
	if len(s.list) >= maxSamples {
		s.list = s.list[:copy(s.list, s.list[maxSamples/2:])]
	}
	s.list = append(s.list, x)
	for i := len(s.list) - 1; i > 0 && s.list[i-1].at > x.at; i-- {
		s.list[i-1], s.list[i] = s.list[i], s.list[i-1]
	}
}

// during passes the stacks of the samples of a thread in a time.
func (s *samples) during(tid int32, from, to tracefs.Time, add func(stack int32)) {
	for i := len(s.list) - 1; i >= 0 && s.list[i].at >= from; i-- {
		if x := &s.list[i]; x.tid == tid && x.at < to {
			add(x.stack)
		}
	}
}

// isTick reports whether an event is a tick of the timer of a CPU.
func isTick(body []byte) bool {
	text, ok := bytes.CutPrefix(body, []byte("rcu_utilization:"))
	return ok && string(bytes.TrimSpace(text)) == "Start scheduler-tick"
}

// sampled takes a tick. It is a sample of the thread that it interrupted, which ran then, and
// counts if threads wait or that one owns a lock: only then can it be of a hold. Without that it
// runs again after it was preempted, as where perf traces threads, the rest of its hold would be
// unsure, and places at the end of holds be rare.
func (a *Analysis) sampled(h *resolve.Pending, i int, rec *tracefs.Record) {
	if rec.TID <= 0 || !tracefs.InInterrupt(h.Head(rec).Flags) {
		return
	}
	a.activity.seen(rec.TID, rec.CPU, h.Time(rec))
	if a.activity.wanted(rec.TID, 'R') == notWanted {
		return
	}
	a.activity.samples.add(sample{h.Time(rec), rec.TID, a.sampledStack(stackset.Attached(h, i))})
}

// sampledStack returns the stack of a sample: its inner frames, or the innermost one if many
// are kept already, as nearly each sample has another one.
func (a *Analysis) sampledStack(of *resolve.Attached) int32 {
	depth := sampledDepth
	switch {
	case of.Stack == nil || len(of.Stack.Frames) == 0:
		return stackset.None
	case !a.stacks.Below(wanted):
		return stackset.Other
	case !a.stacks.Below(maybeOwner):
		depth = 1
	}
	cut := *of.Stack
	n := 1 // what frame pointers led to may be no code
	for n < min(len(cut.Frames), depth) && isCode(&cut.Attributions[n]) {
		n++
	}
	if n < len(cut.Frames) {
		cut.Frames, cut.Attributions, cut.ResultID, cut.Cut = cut.Frames[:n], cut.Attributions[:n], 0, true
	}
	return a.stacks.Of(&resolve.Attached{Stack: &cut})
}

// isCode reports whether a frame is in code.
func isCode(a *resolve.Attribution) bool {
	return a.File != nil || a.Memory != nil && (a.Memory.Exec || a.Memory.Code != nil)
}

// heldSample is how many samples an owner has with a stack.
type heldSample struct {
	stack int32
	count int64
}

// sampled notes where the owner ran from one time to another.
func (h *hold) sampled(s *samples, from, to tracefs.Time) {
	s.during(h.tid, from, to, func(stack int32) {
		if h.countSample(stack) {
			return
		}
		if len(h.samples) < sampledInHold {
			h.samples = append(h.samples, heldSample{stack, 1})
		} else if !h.countSample(stackset.Other) {
			h.samples = append(h.samples, heldSample{stackset.Other, 1})
		}
	})
}

// countSample counts a sample if its owner has others with that stack.
func (h *hold) countSample(stack int32) bool {
	for i := range h.samples {
		if x := &h.samples[i]; x.stack == stack {
			x.count++
			return true
		}
	}
	return false
}

// sampledSums are the samples of many holds.
type sampledSums struct {
	count map[int32]*Tally // by stack, nil if there are none
	rest  int64            // of stacks that were too many
}

func (s *sampledSums) add(stack int32, n int64) {
	if s.count == nil {
		s.count = make(map[int32]*Tally)
	}
	x := s.count[stack]
	switch {
	case x != nil:
		x.Count += n
	case len(s.count) >= maxSampled:
		s.rest += n
	default:
		s.count[stack] = &Tally{Count: n}
	}
}

func (s *sampledSums) merge(o *sampledSums) {
	for stack, x := range o.count {
		s.add(stack, x.Count)
	}
	s.rest += o.rest
}

// list returns how many samples there are, and where, the most first.
func (s *sampledSums) list(stacks *stacks) (all int64, out []Sampled) {
	order := make([]int32, 0, len(s.count))
	for stack := range s.count {
		order = append(order, stack)
	}
	sorting.Func(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(s.count[y].Count, s.count[x].Count), cmp.Compare(x, y))
	})
	nowhere := s.rest
	for _, stack := range order {
		n := s.count[stack].Count
		all += n
		if x := stacks.Get(stack); x != nil {
			out = append(out, Sampled{x, n})
		} else {
			nowhere += n
		}
	}
	if nowhere > 0 {
		out = append(out, Sampled{Count: nowhere})
	}
	return all + s.rest, out
}
