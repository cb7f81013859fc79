package whole

import (
	words "encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/syscalls"
)

const (
	codeStart = 0x7f0000000000 // of memory with code of a compiler
	codeEnd   = codeStart + 1<<30
	callers   = codeStart + 1<<20
	stackAt   = 0x7ffd00000000
	ownTail   = 0xabc // in the kernel's second frame, which is none
)

// deferredTrace is a trace with deferred stacks: of each system call an event and a
// cookie, the same of the return, and the stack. The caller's address identifies the
// call, and the kernel's second frame says which one the truth is.
type deferredTrace struct {
	fakeTrace
	space    *space.Space
	born     map[int][]tracefs.Time // of the processes of a thread, which are numbered
	counters [2]uint64
	calls    uint64
	cookies  uint64 // that a CPU has
	silent   int    // one of so many stacks is missing without a word, 0 for none
	other    int    // one of so many stacks is another one than at the entry
	// interrupts: one of so many events is interrupted before its cookie, 0 for none.
	interrupts int
	blocked    map[int32]deferredCall
}

// deferredCall is the call that a thread is in.
type deferredCall struct {
	number, cookie uint64
	futex          bool
}

func (f *deferredTrace) cookie(cpu int32) uint64 {
	f.counters[cpu]++
	return (f.counters[cpu]%f.cookies*2+3)<<32 | uint64(cpu+1)
}

// tick is a time that threads take.
func (f *deferredTrace) tick(most int) { f.t += tracefs.Time(1 + f.rnd.IntN(most)) }

// asks writes an event and the cookie of its request.
func (f *deferredTrace) asks(tid, cpu int32, call *syscalls.Event, cookie uint64) {
	f.record(tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu}, call)
	f.tick(50)
	if f.interrupts > 0 && f.rnd.IntN(f.interrupts) == 0 { // a timer wakes threads
		f.context = "d.h1."
		f.record(tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu}, new(syscalls.Event))
		f.request(tid, cpu, cookie)
		f.context = "....."
		f.tick(50)
	}
	f.request(tid, cpu, cookie)
	f.tick(500)
}

// request writes a cookie.
func (f *deferredTrace) request(tid, cpu int32, cookie uint64) {
	f.record(tracefs.Record{Kind: tracefs.KindCookie, TID: tid, CPU: cpu, Value: cookie}, nil)
}

func (f *deferredTrace) enter(tid, cpu int32) {
	f.calls++
	c := deferredCall{number: f.calls, cookie: f.cookie(cpu), futex: f.rnd.IntN(4) > 0}
	if !c.futex {
		f.asks(tid, cpu, new(syscalls.Event), c.cookie)
		f.blocked[tid] = c
		return
	}
	if f.rnd.IntN(20) > 0 {
		s := &perf.StackSample{TID: int(tid), PID: 1, CPU: int(cpu), Time: f.t, Tracepoint: futexPoint, ABI: perf.ABI64, Regs: perf.Registers{Machine: perf.AMD64}}
		for n, v := range map[int]uint64{16: returnsTo, 5: waitsFor, 1: 7, 6: stackAt, 7: stackAt} {
			s.Regs.Set(n, v)
		}
		s.Stack = words.LittleEndian.AppendUint64(make([]byte, 8), callers+c.number)
		f.samples = append(f.samples, s)
		f.tick(500)
	}
	var args syscalls.Args
	args.Set(syscalls.Uaddr, waitsFor)
	args.Set(syscalls.ArgVal, 7)
	args.Set(syscalls.Op, 128)
	var e syscalls.Event
	e.Enter(syscalls.FutexOp, &args)
	f.asks(tid, cpu, &e, c.cookie)
	f.blocked[tid] = c
}

func (f *deferredTrace) leave(tid, cpu int32) {
	c := f.blocked[tid]
	delete(f.blocked, tid)
	if f.rnd.IntN(3) == 0 { // a context switch, say
		f.asks(tid, cpu, new(syscalls.Event), c.cookie)
	}
	var e syscalls.Event
	if c.futex {
		e.Return(syscalls.FutexOp, 0)
	}
	f.asks(tid, cpu, &e, c.cookie)
	if f.silent > 0 && f.rnd.IntN(f.silent) == 0 {
		return
	}
	first := uint64(returnsTo)
	if f.other > 0 && f.rnd.IntN(f.other) == 0 {
		first, c.number = returnsTo+0x10, 0 // nothing may be there but this
	}
	n := len(f.batch.Records)
	f.record(tracefs.Record{Kind: tracefs.KindStack, TID: tid, CPU: cpu, Value: c.cookie}, nil, first, c.number<<12|ownTail)
	for ; n < len(f.batch.Records); n++ {
		r := &f.batch.Records[n]
		if r.Kind != tracefs.KindStack {
			continue
		}
		r.Flags |= tracefs.Deferred
		frames, _ := f.batch.StackFrames(r)
		for i := range frames {
			frames[i].Form, frames[i].ID = tracefs.FormIdentifier, tracefs.HashIdentifier(0)
		}
	}
}

// check counts the stacks of a batch that have been replaced, and the wrong ones. truth
// has the kernel's second frame of each.
func (f *deferredTrace) check(truth map[int]uint64) (whole, wrong int) {
	for i := range f.batch.Records {
		r := &f.batch.Records[i]
		if r.Kind != tracefs.KindStack {
			continue
		}
		frames, _ := f.batch.StackFrames(r)
		if len(frames) == 0 || !frames[0].Followed() {
			continue
		}
		whole++
		number := truth[i] >> 12
		_, stop := frames[len(frames)-1].Unwound()
		if len(frames) != 2 || frames[0].Form != tracefs.FormIdentifier || frames[0].Addr != returnsTo || number == 0 ||
			frames[1].Form != tracefs.FormPlain || frames[1].Addr != callers+number || stop != tracefs.AtRoot {
			wrong++
		}
	}
	return whole, wrong
}

func newDeferredTrace(seed uint64) *deferredTrace {
	spaces := space.New()
	spaces.Map(1, &procmap.Mapping{Start: codeStart, End: codeEnd, Perms: procmap.Read | procmap.Exec, Kind: procmap.Anonymous}, 1)
	return &deferredTrace{fakeTrace: fakeTrace{rnd: rand.New(rand.NewPCG(seed, 1)), t: 1e9, context: "....."}, space: spaces.Space(1),
		cookies: 1 << 31, born: make(map[int][]tracefs.Time), blocked: make(map[int32]deferredCall)}
}

// process is the number of a thread's process, by how often the thread has ended.
func (f *deferredTrace) process(tid int, t tracefs.Time) int {
	n := 0
	for n < len(f.born[tid]) && f.born[tid][n] <= t {
		n++
	}
	return 100*tid + n
}

// run has threads make calls. pause is the longest time between two.
func (f *deferredTrace) run(calls, pause int) (whole, wrong int, c Counts) {
	s := New(Options{Tracepoint: futexPoint, Now: func() tracefs.Time { return f.t }, Deferred: true, JIT: func(int) bool { return true },
		Space: func(tid int, t tracefs.Time) (int, *space.Space, bool) { return f.process(tid, t), f.space, true }})
	defer s.Close()
	for n := range calls {
		tid, cpu := int32(10+f.rnd.IntN(5)), int32(f.rnd.IntN(2))
		f.tick(pause)
		_, in := f.blocked[tid]
		switch {
		case in && tid == 14 && f.rnd.IntN(8) > 0: // this one waits long
		case in && f.rnd.IntN(30) == 0: // it is killed, and its number is another's
			delete(f.blocked, tid)
			f.born[int(tid)] = append(f.born[int(tid)], f.t)
		case in:
			f.leave(tid, cpu)
		default:
			f.enter(tid, cpu)
		}
		if n%50 != 49 {
			continue
		}
		for _, p := range f.samples {
			s.Sample(p)
		}
		truth := make(map[int]uint64)
		for i := range f.batch.Records {
			if r := &f.batch.Records[i]; r.Kind == tracefs.KindStack {
				frames, _ := f.batch.StackFrames(r)
				truth[i] = frames[1].Addr
			}
		}
		s.Batch(&f.batch, f.t)
		w, bad := f.check(truth)
		whole, wrong = whole+w, wrong+bad
		f.samples = f.samples[:0]
		f.batch.Reset()
	}
	return whole, wrong, s.Counts()
}

// TestDeferredJoins: whatever is lost of samples and records, a deferred stack gets what
// was found at the entry into its own call, or nothing.
func TestDeferredJoins(t *testing.T) {
	all := 0
	for seed := range uint64(40) {
		f := newDeferredTrace(seed)
		f.bursts, f.interrupts = int(seed%4*4), 10
		whole, wrong, c := f.run(3000, 500)
		if wrong > 0 || uint64(whole) != c.Whole || c.Contradicted > 0 || c.Waits < c.Whole+c.Alone+c.Kept {
			t.Errorf("seed %d: %d of %d are wrong, counted as %+v", seed, wrong, whole, c)
		}
		if c.Dropped == 0 {
			t.Errorf("seed %d: no stack was lost", seed)
		}
		all += whole
	}
	if all < 10000 {
		t.Errorf("only %d stacks were replaced", all)
	}
}

// TestDeferredInterrupts: an interrupt between the event of a call and its cookie, which has
// an event and the same cookie, costs no more stacks than its records that are lost.
func TestDeferredInterrupts(t *testing.T) {
	f := newDeferredTrace(1)
	calm, _, _ := f.run(3000, 500)
	f = newDeferredTrace(1)
	f.interrupts = 2
	whole, wrong, c := f.run(3000, 500)
	if wrong > 0 || 10*whole < 8*calm {
		t.Errorf("%d stacks, %d wrong; without interrupts %d; counted as %+v", whole, wrong, calm, c)
	}
}

// TestDeferredCookieAgain: cookies that come again, which takes a minute or more, where
// records are lost and stacks are missing.
func TestDeferredCookieAgain(t *testing.T) {
	all := 0
	for seed := range uint64(40) {
		f := newDeferredTrace(seed)
		f.cookies, f.silent = 60, 5
		whole, wrong, c := f.run(3000, 1e9)
		if wrong > 0 {
			t.Errorf("seed %d: %d of %d are wrong, counted as %+v", seed, wrong, whole, c)
		}
		all += whole
	}
	if all < 5000 {
		t.Errorf("only %d stacks were replaced", all)
	}
}

// TestDeferredContradicted: where the kernel's stack begins elsewhere it stays, and is
// counted.
func TestDeferredContradicted(t *testing.T) {
	f := newDeferredTrace(1)
	f.other = 3
	whole, wrong, c := f.run(3000, 500)
	if wrong > 0 || whole < 200 || c.Contradicted < 100 {
		t.Errorf("%d of %d are wrong, counted as %+v", wrong, whole, c)
	}
}

// TestTrips: which stacks are of a call, by what the trace has of its thread.
func TestTrips(t *testing.T) {
	const long = cookieAge + 1
	for name, test := range map[string]struct {
		records []string
		want    bool
	}{
		"a wait":                                {[]string{"enter", "cookie 5", "stack 5"}, true},
		"with its return":                       {[]string{"enter", "cookie 5", "exit", "cookie 5", "stack 5"}, true},
		"another event of the same trip":        {[]string{"enter", "cookie 5", "event", "cookie 5", "stack 5"}, true},
		"a long wait":                           {[]string{"enter", "cookie 5", "time", "exit", "cookie 5", "stack 5"}, true},
		"the cookie is refused":                 {[]string{"enter", "cookie 0", "stack 0"}, false},
		"another cookie after that":             {[]string{"enter", "cookie 0", "cookie 7", "stack 7"}, false},
		"the cookie of another CPU":             {[]string{"enter", "elsewhere 5", "stack 5"}, false},
		"another stack":                         {[]string{"enter", "cookie 5", "stack 7"}, false},
		"a stack twice":                         {[]string{"enter", "cookie 5", "stack 5", "stack 5"}, true},
		"a later trip":                          {[]string{"enter", "cookie 5", "cookie 7", "stack 5"}, false},
		"a loss before the cookie":              {[]string{"enter", "lost", "cookie 5", "stack 5"}, false},
		"a loss of all before the cookie":       {[]string{"enter", "lost all", "cookie 5", "stack 5"}, false},
		"a loss of another CPU":                 {[]string{"enter", "lost other", "cookie 5", "stack 5"}, true},
		"a loss after the cookie":               {[]string{"enter", "cookie 5", "lost", "stack 5"}, true},
		"an event before the cookie":            {[]string{"enter", "event", "cookie 5", "stack 5"}, false},
		"the cookie of an interrupt":            {[]string{"enter", "interrupt 5", "stack 5"}, false},
		"an interrupt before the cookie":        {[]string{"enter", "interrupt 5", "cookie 5", "stack 5"}, true},
		"an interrupt of a later trip":          {[]string{"enter", "cookie 5", "interrupt 7", "stack 5"}, false},
		"a return before the cookie":            {[]string{"enter", "exit", "cookie 5", "stack 5"}, false},
		"another thread's entry before":         {[]string{"enter", "enter other", "cookie 5", "stack 5"}, false},
		"the cookie again, after a loss":        {[]string{"enter", "cookie 5", "lost", "time", "stack 5"}, false},
		"the cookie again, after the return":    {[]string{"enter", "cookie 5", "exit", "time", "stack 5"}, false},
		"a piece of a stack that began earlier": {[]string{"enter", "cookie 5", "piece 5"}, false},
	} {
		var d trips
		at := tracefs.Time(1)
		of := d.begin(9, 0, at)
		for _, text := range test.records[1:] {
			what, how, _ := strings.Cut(text, " ")
			value, _ := strconv.ParseUint(how, 10, 64)
			r := &tracefs.Record{TID: 9, Value: value}
			switch what {
			case "cookie", "interrupt":
				d.ask(r, what == "interrupt")
			case "elsewhere":
				r.CPU = 1
				d.ask(r, false)
			case "event":
				d.event(9)
			case "exit":
				d.leave(9, at)
			case "enter":
				d.begin(8, 0, at)
			case "lost":
				d.lose(map[string]int32{"": 0, "other": 1, "all": tracefs.NoCPU}[how])
			case "time":
				at += long
			case "piece":
				r.Flags |= tracefs.Continued
				d.stack(1, r, at)
			case "stack":
				d.stack(1, r, at)
			}
		}
		got := len(d.arrived) == 1 && d.arrived[0].trip == of
		if got != test.want || len(d.arrived) > 1 {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestDeferredBound: threads that wait for ever do not take all memory.
func TestDeferredBound(t *testing.T) {
	var d trips
	frames := make([]held, maxFrames)
	for tid := range int32(3 * maxHeld / maxFrames) {
		d.keep(d.begin(tid, 0, 1), frames)
		d.ask(&tracefs.Record{TID: tid, Value: 5}, false)
		if d.held > maxHeld || d.held != len(d.of)*maxFrames {
			t.Fatalf("%d frames of %d threads are kept", d.held, len(d.of))
		}
	}
	if d.dropped == 0 {
		t.Error("nothing was dropped")
	}
}
