package whole

import (
	"debug/elf"
	"os"
	"sync"
	"time"

	"ustack/filemap/hotspot"
	"ustack/filemap/procmem"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/join"
	"ustack/tracefs/syscalls"
	"ustack/tracefs/text"
)

// Options are what a Stage works with.
type Options struct {
	// Tracepoint is the number of the tracepoint that is sampled, the entry into
	// futex.
	Tracepoint uint64
	// Ticks is the number of the tracepoint of ticks, see instance.Tick; 0 if they are not
	// sampled. The trace has their stacks as the kernel takes them at the event.
	Ticks uint64
	// Space is what a thread's process had mapped, and which process that is; ok is
	// false if unknown.
	Space func(tid int, t tracefs.Time) (pid int, sp *space.Space, ok bool)
	// Open opens what a process has mapped.
	Open func(pid int, m *space.Mapping) (*unwind.Binary, error)
	// Debug opens the separate file with debug information of a mapped file that is
	// open; nil for none.
	Debug func(b *unwind.Binary, f *space.File) (*unwind.Binary, error)
	// JIT reports whether a process has code of a compiler that keeps frame
	// pointers; nil if none has.
	JIT func(pid int) bool
	// Deferred is set if the trace has deferred stacks, with the cookies of their
	// requests.
	Deferred bool
	// Memory reads the memory of processes that run Java, nil for none; their functions are
	// kept in Names, nil if these are not needed.
	Memory *procmem.Reader
	Names  *hotspot.Names
	// Now is the time by the clock of the trace.
	Now func() tracefs.Time
}

// Counts is what became of the waits of a trace.
type Counts struct {
	Waits uint64 // with a stack
	Whole uint64 // whose stack was unwound
	Kept  uint64 // whose sample proves no more than the kernel's stack
	Alone uint64 // without a sample that is proven to be theirs
	// Missed counts those of Alone that began while sampling had paused.
	Missed uint64
	// Releases counts the calls that let others go on, with a stack; ReleasesWhole the
	// ones among them whose stack was unwound.
	Releases, ReleasesWhole uint64
	// Ticks counts the ticks of timers with a stack; of TicksWhole it was unwound, of
	// TicksShort of these as far as the copy went.
	Ticks, TicksWhole, TicksShort uint64
	Refused                       uint64 // samples that are not proven to be of any call
	// Contradicted counts deferred stacks that are not what was unwound at the event,
	// Dropped what was unwound and whose deferred stack did not come.
	Contradicted, Dropped uint64
	// Used is how many bytes of a stack were looked at, at most; Short is how many
	// copies were too short.
	Used  uint64
	Short uint64
}

// Stage puts whole stacks into batches. Counts may be called by another goroutine than
// the rest.
type Stage struct {
	opt       Options
	joiner    *join.Joiner[call, *perf.StackSample]
	unwinder  *unwind.Unwinder
	files     map[mappedFile]*unwind.File
	entries   map[int32]entry
	trips     trips
	free      []*perf.StackSample
	batch     uint64 // number of the one at hand
	pairs     []pair
	list      []text.Unwound
	frames    []unwind.Frame
	arena     []tracefs.Frame
	restacker text.Restacker
	own       int
	growth    growth // of the copies of stacks
	wakes     releases
	ticks     ticks
	rests     rests
	runtimes  *Runtimes
	holes     *Holes
	passed    uint64       // samples
	until     tracefs.Time // before which all samples have been passed
	sys       syscalls.Event

	mu    sync.Mutex
	count Counts
}

// entry is the entry into a call whose stack has not come.
type entry struct {
	head join.Head
	call call
}

// call is what the trace has of a call.
type call struct {
	waits  bool
	wakes  bool
	at     tracefs.Time
	batch  uint64
	record int // of the stack, in the batch; -1 if it has none
	addr   uint64
	value  uint32
	trip   *trip // of a deferred stack
}

type pair struct {
	call   call
	sample *perf.StackSample
}

// keep is how long samples wait for their records.
const keep = 2 * time.Second

// New returns a Stage.
func New(opt Options) *Stage {
	return &Stage{
		runtimes: NewRuntimes(RuntimeOptions{opt.Memory, opt.Names, opt.Open, opt.Now}), holes: NewHoles(opt.Memory),
		opt: opt, joiner: join.New[call, *perf.StackSample](join.Options{Order: join.PerfFirst, Keep: keep}),
		unwinder: unwind.New(0), files: make(map[mappedFile]*unwind.File), entries: make(map[int32]entry),
		own: os.Getpid(), growth: growth{size: firstStack}, ticks: newTicks(),
	}
}

// Sample takes a sample, of which it makes a copy.
func (s *Stage) Sample(p *perf.StackSample) {
	if p.PID == s.own || p.TID <= 0 || p.ABI != perf.ABI64 || p.Time < s.until {
		return
	}
	var c *perf.StackSample
	if n := len(s.free); n > 0 {
		c, s.free = s.free[n-1], s.free[:n-1]
		stack, chain := c.Stack, c.Chain
		*c = *p
		c.Stack, c.Chain = append(stack[:0], p.Stack...), append(chain[:0], p.Chain...)
	} else {
		c = p.Clone()
	}
	if s.ofTick(c) {
		return
	}
	s.passed++
	ip, _ := c.Regs.PC()
	s.joiner.Sample(join.Head{TID: c.TID, CPU: c.CPU, Time: c.Time, Tracepoint: c.Tracepoint, IP: ip}, c)
}

// Restarted notes that records of the trace may be missing before the next one.
func (s *Stage) Restarted() {
	s.bare(tracefs.NoCPU)
	s.trips.lose(tracefs.NoCPU)
	s.joiner.Lost(-1)
}

// margin is longer than the joiner waits for a record that contradicts. All records
// of a batch come in the order of time, and the sample comes before its record: nothing
// that comes later can say more.
const margin = tracefs.Time(2 * time.Millisecond)

// Batch gives stacks of a batch the frames that samples prove. All samples of before the
// last record of the batch must have been passed, and all changes of mappings of before
// then be known.
func (s *Stage) Batch(b *tracefs.Batch, samplesUntil tracefs.Time) {
	s.batch++
	defer func() { s.until = max(s.until, samplesUntil) }()
	if s.waiting() == 0 {
		s.pass(b)
		s.pairs = s.pairs[:0]
		s.replace(b)
		return
	}
	var last tracefs.Time
	for i := range b.Records {
		r := &b.Records[i]
		switch r.Kind {
		case tracefs.KindLost, tracefs.KindGap:
			s.bare(r.CPU)
			s.trips.other(b, i)
			s.joiner.Lost(int(r.CPU))
			continue
		case tracefs.KindEvent, tracefs.KindStack:
		default:
			s.trips.other(b, i)
			continue
		}
		t, ok := b.Exact(r)
		if !ok {
			continue
		}
		last = max(last, t)
		switch {
		case r.Flags&tracefs.Deferred == 0 && interrupts(b, r): // it says nothing of the call that the thread is about to make
			s.joiner.Saw(int(r.CPU), t)
		case r.Kind == tracefs.KindEvent:
			s.event(b, r, t)
		case r.Flags&tracefs.Deferred != 0:
			s.trips.other(b, i)
		default:
			s.stack(b, i, r)
		}
	}
	s.pairs = s.pairs[:0]
	var alone Counts
	s.joiner.Settle(last+margin, samplesUntil, func(c call, p *perf.StackSample) { s.pairs = append(s.pairs, pair{c, p}) },
		func(c call) {
			if c.waits && c.record >= 0 {
				s.alone(c.at, &alone)
			}
		})
	s.replace(b)
	j := s.joiner.Counts()
	s.mu.Lock()
	s.count.Alone += alone.Alone
	s.count.Missed += alone.Missed
	s.count.Refused = j.Lost + j.Unlike + j.Unsure + j.Dropped
	s.mu.Unlock()
}

// waiting returns how many samples have not got their records.
func (s *Stage) waiting() uint64 {
	c := s.joiner.Counts()
	return s.passed - c.Joined - c.Lost - c.Unlike - c.Alone - c.Unsure - c.Dropped
}

// pass counts the waits of a batch that no sample is of. As a sample comes before its
// record, none of these records says anything about one that is still to come.
func (s *Stage) pass(b *tracefs.Batch) {
	clear(s.entries)
	var c Counts
	for i := range b.Records {
		r := &b.Records[i]
		if r.Kind != tracefs.KindEvent {
			s.trips.other(b, i)
			continue
		}
		e := b.Call(r)
		if e == nil {
			if e = &s.sys; !syscalls.Parse(b.Text[r.Body:r.End], e) {
				s.trips.passes(b, r)
				continue
			}
		}
		switch {
		case e.Call != syscalls.FutexOp:
			s.trips.passes(b, r)
		case e.Exit:
			t, _ := b.Exact(r)
			s.trips.leave(r.TID, t)
		default:
			s.trips.drop(s.trips.of[r.TID])
			switch cmd := e.Futex.Cmd; {
			case cmd.Waits():
				c.Waits++
				t, _ := b.Exact(r)
				s.alone(t, &c)
			case cmd.Wakes():
				c.Releases++
			}
		}
	}
	s.mu.Lock()
	s.count.Waits += c.Waits
	s.count.Alone += c.Alone
	s.count.Missed += c.Missed
	s.count.Releases += c.Releases
	s.mu.Unlock()
}

// bare notes that entries on a CPU have no stack: what comes next may belong to
// another event. A CPU below 0 is for all.
func (s *Stage) bare(cpu int32) {
	for tid, e := range s.entries {
		if cpu < 0 || e.head.CPU == int(cpu) {
			delete(s.entries, tid)
			s.joiner.Enter(e.head, e.call)
		}
	}
}

// event takes an event of the trace.
func (s *Stage) event(b *tracefs.Batch, r *tracefs.Record, t tracefs.Time) {
	if e, ok := s.entries[r.TID]; ok { // it has no stack
		delete(s.entries, r.TID)
		s.joiner.Enter(e.head, e.call)
	}
	e := b.Call(r)
	if e == nil {
		if e = &s.sys; !syscalls.Parse(b.Text[r.Body:r.End], e) {
			s.joiner.Saw(int(r.CPU), t)
			s.trips.passes(b, r)
			return
		}
	}
	head := join.Head{TID: int(r.TID), CPU: int(r.CPU), Time: t}
	switch {
	case e.Call != syscalls.FutexOp:
		s.joiner.Saw(int(r.CPU), t)
		s.trips.passes(b, r)
	case e.Exit:
		s.joiner.Exit(head)
		s.trips.leave(r.TID, t)
	case s.opt.Deferred:
		head.Tracepoint = s.opt.Tracepoint
		s.joiner.Enter(head, s.enters(r, t, e))
	default:
		head.Tracepoint = s.opt.Tracepoint
		if len(s.entries) >= maxEntries {
			s.bare(tracefs.NoCPU)
		}
		s.entries[r.TID] = entry{head, call{waits: e.Futex.Cmd.Waits(), wakes: e.Futex.Cmd.Wakes(), at: t, record: -1, addr: e.Futex.Addr, value: e.Futex.Val}}
	}
}

// enters notes the entry into a call whose stack is deferred.
func (s *Stage) enters(r *tracefs.Record, t tracefs.Time, e *syscalls.Event) call {
	c := call{waits: e.Futex.Cmd.Waits(), at: t, record: -1, addr: e.Futex.Addr, value: e.Futex.Val}
	if c.waits {
		c.trip = s.trips.begin(r.TID, r.CPU, t)
	} else {
		s.trips.drop(s.trips.of[r.TID])
	}
	return c
}

// maxEntries bounds the threads of which an entry is kept.
const maxEntries = 1 << 16

// stack takes the stack of an event.
func (s *Stage) stack(b *tracefs.Batch, i int, r *tracefs.Record) {
	e, ok := s.entries[r.TID]
	if !ok || int(r.CPU) != e.head.CPU || r.Flags&(tracefs.Deferred|tracefs.Continued|tracefs.Cut) != 0 {
		return
	}
	delete(s.entries, r.TID)
	if frames, text := b.StackFrames(r); len(frames) > 0 {
		e.head.IP = frames[0].Address(text)
	}
	e.call.batch, e.call.record = s.batch, i
	s.joiner.Enter(e.head, e.call)
	if e.call.waits || e.call.wakes {
		s.mu.Lock()
		if e.call.waits {
			s.count.Waits++
		} else {
			s.count.Releases++
		}
		s.mu.Unlock()
	}
}

// Counts returns what became of the waits so far.
func (s *Stage) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Rest closes the files that no stack has led through since the last call.
func (s *Stage) Rest() {
	if s.unwinder.Rest() {
		clear(s.files) // what is there now is looked at again
	}
}

// Close closes the files.
func (s *Stage) Close() {
	s.runtimes.Close()
	s.unwinder.Close()
}

// machine returns the instruction set of a sample.
func machine(r *perf.Registers) elf.Machine {
	switch r.Machine {
	case perf.AMD64:
		return elf.EM_X86_64
	case perf.ARM64:
		return elf.EM_AARCH64
	}
	return elf.EM_NONE
}
