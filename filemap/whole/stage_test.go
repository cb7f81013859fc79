package whole

import (
	"math/rand/v2"
	"testing"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/syscalls"
)

const (
	futexPoint = 522
	returnsTo  = 0x7f0000001000
	waitsFor   = 0x5000 // an address of a futex
)

// fakeTrace makes batches and samples as the kernel does: the sample comes first, then
// the event, then its stack.
type fakeTrace struct {
	rnd     *rand.Rand
	t       tracefs.Time
	batch   tracefs.Batch
	samples []*perf.StackSample
	lost    [2]bool // something of a CPU, since its last record
	bursts  int     // records that are lost in a row, at most; 0 for one
	left    [2]int  // of such a row
	context string  // irq-info columns of what is written, "" for none
	wrong   bool    // registers have another value than the call
	between bool    // an interrupt comes between each entry and its stack
}

func (f *fakeTrace) record(r tracefs.Record, call *syscalls.Event, addrs ...uint64) {
	b := &f.batch
	switch {
	case f.left[r.CPU] > 0:
		f.left[r.CPU]--
		return
	case f.rnd.IntN(20) == 0:
		f.lost[r.CPU] = true
		if f.bursts > 0 {
			f.left[r.CPU] = f.rnd.IntN(f.bursts)
		}
		return
	}
	if f.lost[r.CPU] {
		f.lost[r.CPU] = false
		b.Records = append(b.Records, tracefs.Record{Kind: tracefs.KindLost, CPU: r.CPU, TID: tracefs.NoTID})
	}
	o := tracefs.Origin{Time: f.t / 1000 * 1000, Exact: f.t}
	copy(o.Flags[:], f.context)
	b.Origins = append(b.Origins, o)
	if r.Origin = uint32(len(b.Origins)); r.Body == r.End {
		r.Flags = tracefs.NoText
	}
	if call != nil {
		*b.AddCall(&r) = *call
	} else {
		r.Lo = uint32(len(b.Frames))
		for _, a := range addrs {
			b.Frames = append(b.Frames, tracefs.Frame{Addr: a, HasAddr: true, Form: tracefs.FormPlain})
		}
		r.Hi = uint32(len(b.Frames))
	}
	b.Records = append(b.Records, r)
}

// call has a thread wait, or wake; number identifies the call.
func (f *fakeTrace) call(tid, cpu int32, number uint32, waits bool) {
	f.t += tracefs.Time(1 + f.rnd.IntN(500))
	if waits && f.rnd.IntN(20) > 0 {
		s := &perf.StackSample{TID: int(tid), PID: 1, CPU: int(cpu), Time: f.t, Tracepoint: futexPoint, ABI: perf.ABI64, Regs: perf.Registers{Machine: perf.AMD64}}
		s.Regs.Set(16, returnsTo)
		s.Regs.Set(5, waitsFor)
		s.Regs.Set(1, 7) // the same of all calls: what is proven must not depend on it
		if f.wrong {
			s.Regs.Set(1, 8)
		}
		s.Regs.Set(12, uint64(number))
		f.samples = append(f.samples, s)
	}
	var args syscalls.Args
	args.Set(syscalls.Uaddr, waitsFor)
	args.Set(syscalls.ArgVal, 7)
	args.Set(syscalls.Op, 129)
	if waits {
		args.Set(syscalls.Op, 128)
	}
	var e syscalls.Event
	e.Enter(syscalls.FutexOp, &args)
	f.t += tracefs.Time(1 + f.rnd.IntN(500))
	f.record(tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu}, &e)
	if f.between {
		f.interrupt(tid, cpu)
	}
	// The second frame identifies the call.
	f.record(tracefs.Record{Kind: tracefs.KindStack, TID: tid, CPU: cpu}, nil, returnsTo, uint64(number))
}

// interrupt has an interrupt make an event, with the stack of the thread or, while that of another
// event is taken, without.
func (f *fakeTrace) interrupt(tid, cpu int32) {
	was := f.context
	f.context = "d.h1."
	f.t += tracefs.Time(1 + f.rnd.IntN(500))
	f.record(tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu}, nil)
	if f.rnd.IntN(2) == 0 {
		f.record(tracefs.Record{Kind: tracefs.KindStack, TID: tid, CPU: cpu}, nil, returnsTo, 1<<40)
	}
	f.context = was
}

func (f *fakeTrace) exit(tid, cpu int32) {
	f.t += tracefs.Time(1 + f.rnd.IntN(500))
	var e syscalls.Event
	e.Return(syscalls.FutexOp, 0)
	f.record(tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu}, &e)
	f.record(tracefs.Record{Kind: tracefs.KindStack, TID: tid, CPU: cpu}, nil, returnsTo)
}

// run has threads make calls, and counts the pairs and the wrong ones.
func (f *fakeTrace) run(calls int) (pairs, wrong int, c Counts) {
	s := New(Options{Tracepoint: futexPoint, Now: func() tracefs.Time { return f.t },
		Space: func(int, tracefs.Time) (int, *space.Space, bool) { return 0, nil, false }})
	defer s.Close()
	in := map[int32]bool{}
	for number := range uint32(calls) {
		tid := int32(10 + f.rnd.IntN(4))
		cpu := int32(f.rnd.IntN(2))
		if in[tid] {
			f.exit(tid, cpu)
		} else {
			f.call(tid, cpu, number, f.rnd.IntN(3) > 0)
		}
		in[tid] = !in[tid]
		if number%50 != 49 {
			continue
		}
		for _, p := range f.samples {
			s.Sample(p)
		}
		s.Batch(&f.batch, f.t)
		for _, p := range s.pairs {
			if p.call.record < 0 {
				continue
			}
			frames, _ := f.batch.StackFrames(&f.batch.Records[p.call.record])
			id, _ := p.sample.Regs.Get(12)
			pairs++
			if len(frames) < 2 || frames[1].Addr != id {
				wrong++
			}
		}
		f.samples = f.samples[:0]
		f.batch.Reset()
	}
	return pairs, wrong, s.Counts()
}

// TestStageJoins: whatever is lost of samples and records, no stack gets another's.
func TestStageJoins(t *testing.T) {
	all := 0
	for seed := range uint64(40) {
		f := &fakeTrace{rnd: rand.New(rand.NewPCG(seed, 1)), t: 1e9}
		pairs, wrong, c := f.run(3000)
		if wrong > 0 {
			t.Errorf("seed %d: %d of %d pairs are wrong", seed, wrong, pairs)
		}
		if c.Whole != 0 || c.Kept > uint64(pairs) || c.Waits < uint64(pairs) {
			t.Errorf("seed %d: %d pairs, counted as %+v", seed, pairs, c)
		}
		all += pairs
	}
	if all < 10000 {
		t.Errorf("only %d pairs", all)
	}
}

// TestStageInterrupts: what an interrupt writes between the entry into a call and its stack takes the
// stack away from none, and gives it no other one.
func TestStageInterrupts(t *testing.T) {
	all := 0
	for seed := range uint64(10) {
		f := &fakeTrace{rnd: rand.New(rand.NewPCG(seed, 1)), t: 1e9, between: true}
		pairs, wrong, c := f.run(3000)
		if wrong > 0 || c.Waits < uint64(pairs) {
			t.Errorf("seed %d: %d of %d pairs are wrong, counted as %+v", seed, wrong, pairs, c)
		}
		all += pairs
	}
	if all < 1000 {
		t.Errorf("only %d pairs", all)
	}
}

// TestStageArguments: a sample with other arguments than the call is not its.
func TestStageArguments(t *testing.T) {
	f := &fakeTrace{rnd: rand.New(rand.NewPCG(1, 1)), t: 1e9, wrong: true}
	if pairs, _, c := f.run(3000); c.Kept+c.Whole != 0 || c.Alone < uint64(pairs) || pairs == 0 {
		t.Errorf("%d pairs, counted as %+v", pairs, c)
	}
}
