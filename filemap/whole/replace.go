package whole

import (
	"cmp"

	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/sorting"
	"ustack/tracefs/text"
)

// maxFrames is how many frames of a stack are kept: no more than perf's own limit
// (kernel.perf_event_max_stack), so that they fit into the kernel's text of a record.
const maxFrames = 127

// replace gives the stacks of pairs the frames that were found.
func (s *Stage) replace(b *tracefs.Batch) {
	sorting.Func(s.pairs, func(x, y pair) int { return cmp.Compare(x.call.record, y.call.record) })
	s.list, s.arena = s.list[:0], s.arena[:0]
	var c Counts
	for _, p := range s.pairs {
		switch {
		case p.call.trip != nil:
			if alike(p) {
				s.hold(p, &c)
			}
		case p.call.wakes:
			s.released(b, p, &c)
		case p.call.record < 0 || p.call.batch != s.batch || !alike(p):
			c.Alone++
		default:
			if frames := s.whole(b, p, &c); frames != nil {
				s.replaced(b, p.call.record, frames)
				c.Whole++
			} else {
				c.Kept++
			}
		}
		s.release(p.sample)
	}
	s.ticked(b, &c)
	s.arrivals(b, &c)
	sorting.Func(s.list, func(x, y text.Unwound) int { return cmp.Compare(x.Record, y.Record) })
	s.restacker.Restack(b, s.list)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Waits += c.Waits
	s.count.Whole += c.Whole
	s.count.ReleasesWhole += c.ReleasesWhole
	s.count.Kept += c.Kept
	s.count.Alone += c.Alone
	s.count.Missed += c.Missed
	s.count.Short += c.Short
	s.count.Contradicted += c.Contradicted
	s.count.Dropped = s.trips.dropped
	s.count.Ticks += c.Ticks
	s.count.TicksWhole += c.TicksWhole
	s.count.TicksShort += c.TicksShort
	s.count.Used = max(s.count.Used, c.Used)
}

// replaced gives a stack the frames that were found.
func (s *Stage) replaced(b *tracefs.Batch, record int, frames []tracefs.Frame) {
	s.list = append(s.list, text.Unwound{Record: record, Frames: frames})
	r := &b.Records[record]
	if at, ok := b.Exact(r); ok {
		s.named(r.TID, at, s.functions())
	}
}

// release keeps the memory of a sample for the next.
func (s *Stage) release(p *perf.StackSample) {
	const most = 1 << 10
	if len(s.free) < most {
		s.free = append(s.free, p)
	}
}

// arguments are the registers with the address and the value of a futex call, by
// their DWARF numbers.
var arguments = map[perf.Machine][2]int{perf.AMD64: {5, 1}, perf.ARM64: {0, 2}}

// alike reports whether a sample has the arguments of the call.
func alike(p pair) bool {
	at, ok := arguments[p.sample.Regs.Machine]
	if !ok {
		return false
	}
	addr, known := p.sample.Regs.Get(at[0])
	value, also := p.sample.Regs.Get(at[1])
	return known && also && addr == p.call.addr && uint32(value) == p.call.value
}

// unwindSample unwinds a sample: s.frames is what was found, none if it proves no more than
// the kernel's stack.
func (s *Stage) unwindSample(p *perf.StackSample) (sp *space.Space, pid int, end unwind.End) {
	s.frames = s.frames[:0]
	pid, sp, ok := s.opt.Space(p.TID, p.Time)
	if !ok {
		return nil, 0, end
	}
	in := unwind.Input{Machine: machine(&p.Regs), Max: maxFrames, Regs: registers(&p.Regs)}
	in.Stack.At, _ = p.Regs.SP()
	in.Stack.Bytes = p.Stack
	in.Space = &view{s: s, pid: pid, space: sp, at: p.Time, until: p.Time}
	s.frames, end = s.unwinder.Unwind(&in, s.frames)
	return sp, pid, end
}

// unwind unwinds the sample of a call, see unwindSample, and notes how much of the stack that
// took.
func (s *Stage) unwind(p pair, c *Counts) (sp *space.Space, pid int, end unwind.End) {
	sp, pid, end = s.unwindSample(p.sample)
	if len(s.frames) == 0 {
		return sp, pid, end
	}
	c.Used = max(c.Used, end.Used)
	more := uint64(0)
	switch {
	case end.Why != unwind.Short:
	case p.sample.Short:
		if sp, ok := p.sample.Regs.SP(); ok {
			s.holes.Fill(pid, sp, len(p.sample.Stack), s.opt.Now())
		}
	default:
		more = max(end.Want, 1)
	}
	if p.call.wakes {
		s.wakes.growth.copied(len(p.sample.Stack), more)
		return sp, pid, end
	}
	if more > 0 {
		c.Short++
	}
	s.growth.copied(len(p.sample.Stack), more)
	return sp, pid, end
}

// whole unwinds a sample. nil is for no more than the kernel's stack.
func (s *Stage) whole(b *tracefs.Batch, p pair, c *Counts) []tracefs.Frame {
	_, _, end := s.unwind(p, c)
	if len(s.frames) == 0 {
		return nil
	}
	kernel, text := b.StackFrames(&b.Records[p.call.record])
	return s.frameList(kernel, text, end)
}

// frameList returns a stack as it goes into the batch: what was unwound, and what the
// kernel has beyond that.
func (s *Stage) frameList(kernel []tracefs.Frame, text []byte, end unwind.End) []tracefs.Frame {
	from := len(s.arena)
	for i := range s.frames {
		f := &s.frames[i]
		out := tracefs.Frame{Addr: f.PC, HasAddr: true, Form: tracefs.FormPlain}
		out.SetUnwound(unwind.HowOf(f.How), tracefs.NoStop)
		s.arena = append(s.arena, out)
	}
	stop := unwind.StopOf(end.Why)
	if beyond := s.beyond(kernel, text, stop, end.Addr); len(beyond) > 0 {
		for i := range beyond {
			s.arena = append(s.arena, tracefs.Frame{Addr: beyond[i].Address(text), HasAddr: true, Form: tracefs.FormPlain})
		}
		return s.arena[from:len(s.arena):len(s.arena)]
	}
	last := &s.arena[len(s.arena)-1]
	how, _ := last.Unwound()
	last.SetUnwound(how, stop)
	return s.arena[from:len(s.arena):len(s.arena)]
}

// beyond returns the frames that the kernel found by frame pointers where the tables end.
// Both must agree so far. A return address into code that is not known, of a JIT compiler
// or moved by mremap, both must have found, and the kernel no frame before it that the
// tables have not: it leaves out callers of functions that keep no frame pointer.
func (s *Stage) beyond(kernel []tracefs.Frame, text []byte, stop tracefs.Stop, addr uint64) []tracefs.Frame {
	switch stop {
	case tracefs.AtCopy, tracefs.AtFile:
		for i := range s.frames {
			if i >= len(kernel) || kernel[i].Address(text) != s.frames[i].PC {
				return nil
			}
		}
		return kernel[len(s.frames):]
	case tracefs.AtNoMap, tracefs.AtContradiction:
		next := 0 // of the unwound frames
		for k := range kernel {
			at := kernel[k].Address(text)
			if k > 0 && at == addr {
				return kernel[k:]
			}
			for next < len(s.frames) && s.frames[next].PC != at {
				next++
			}
			if next == len(s.frames) {
				return nil
			}
			next++
		}
	}
	return nil
}
