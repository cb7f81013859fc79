package whole

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/syscalls"
)

// asleep are threads that sleep in one and the same call, at one place, after they have let
// others go on: what is proven of a sleep must rest on its records only.
type asleep struct{ lookedAt }

// read is what is seen of a thread that sleeps.
func (f *asleep) read(tid, size int) (*blocked.Stack, error) {
	s, err := f.lookedAt.read(tid, size)
	if err == nil {
		s.Call = unix.SYS_READ
	}
	return s, err
}

// leaves has a thread leave its CPU.
func (f *asleep) leaves(tid, cpu int32, state string) {
	f.t += tracefs.Time(1 + f.rnd.IntN(500))
	r := tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu}
	r.Body = uint32(len(f.batch.Text))
	f.batch.Text = fmt.Appendf(f.batch.Text, "sched_switch: prev_comm=a prev_pid=%d prev_prio=120 prev_state=%s ==> next_comm=b next_pid=9 next_prio=120", tid, state)
	r.End = uint32(len(f.batch.Text))
	f.record(r, nil)
	f.record(tracefs.Record{Kind: tracefs.KindStack, TID: tid, CPU: cpu}, nil, returnsTo)
}

// step has a thread do something: it sleeps, or wakes up, goes on for a while, and perhaps
// leaves its CPU in another state.
func (f *asleep) step() {
	f.mu.Lock()
	defer f.mu.Unlock()
	tid, cpu := 10+f.rnd.IntN(4), int32(f.rnd.IntN(2))
	if at := f.in[tid]; at != 0 {
		f.t++
		f.past[tid] = append(f.past[tid], [2]tracefs.Time{at, f.t})
		delete(f.in, tid)
		switch f.rnd.IntN(3) {
		case 0: // it makes no record until it sleeps again
		case 1:
			f.leaves(int32(tid), cpu, "R")
			return
		default:
			f.call(int32(tid), cpu, 0, false)
			return
		}
	}
	f.leaves(int32(tid), cpu, [...]string{"S", "D"}[f.rnd.IntN(2)])
	f.in[tid] = f.t
}

func runAsleep(seed uint64, heed bool) *asleep {
	f := &asleep{newLookedAt(seed, 9)}
	f.drive(LookoutOptions{Read: f.read, Sleeps: true}, f.step, heed)
	return f
}

// TestSleepsProve: whatever is lost of the records, and whenever a thread is looked at, no
// switch gets the stack of another sleep.
func TestSleepsProve(t *testing.T) {
	proves(t, func(seed uint64) *lookedAt { return &runAsleep(seed, true).lookedAt }, func(c *LookoutCounts, _ uint64) bool { return *c == LookoutCounts{} })
}

// TestSleepsNeedLosses: without the word that records are missing, wrong ones would be taken
// for proven.
func TestSleepsNeedLosses(t *testing.T) {
	for seed := range uint64(400) {
		if runAsleep(seed, false).wrong > 0 {
			return
		}
	}
	t.Error("the test of proofs has nothing that is lost late")
}

// TestSleepsArguments: a thread that is elsewhere is not taken.
func TestSleepsArguments(t *testing.T) {
	good := func() *blocked.Stack {
		s := &blocked.Stack{TID: 5, From: 20, To: 21, Call: unix.SYS_READ, ABI: perf.ABI64, Regs: perf.Registers{Machine: perf.AMD64}}
		s.Regs.Set(16, returnsTo)
		return s
	}
	w := &wait{tid: 5, at: 10, pc: returnsTo, sleep: true}
	if !w.in(good()) {
		t.Fatal("the thread does not sleep there")
	}
	for what, change := range map[string]func(s *blocked.Stack){
		"in futex":         func(s *blocked.Stack) { s.Call = unix.SYS_FUTEX },
		"a 32-bit process": func(s *blocked.Stack) { s.ABI = perf.ABI32 },
		"elsewhere":        func(s *blocked.Stack) { s.Regs.Set(16, returnsTo+1) },
		"before":           func(s *blocked.Stack) { s.From = w.at },
	} {
		s := good()
		if change(s); w.in(s) {
			t.Errorf("%s: the thread sleeps there", what)
		}
	}
}

// TestSleepsBudget: few sleeps are looked at, of threads that have let others go on.
func TestSleepsBudget(t *testing.T) {
	var s sleeps
	const start = tracefs.Time(100e9)
	s.wakes(7, start)
	looked := 0
	for ms := range 1000 { // a sleep each millisecond
		if _, ok := s.may(7, start+tracefs.Time(ms)*1e6); ok {
			looked++
		}
		if _, ok := s.may(8, start+tracefs.Time(ms)*1e6); ok {
			t.Fatal("a thread is looked at that has not let others go on")
		}
	}
	if looked < sleepsPerSecond-1 || looked > sleepsPerSecond+sleepsAtOnce {
		t.Errorf("%d sleeps of a second are looked at, want %d", looked, sleepsPerSecond)
	}
	if _, ok := s.may(7, start+2*wakesFor); ok {
		t.Error("it counts for ever that a thread has let others go on")
	}
	s.wakes(7+int32(len(s.wakers)), start+3*wakesFor)
	if _, ok := s.may(7, start+3*wakesFor); ok {
		t.Error("another thread has let others go on")
	}
}

// asleepAnywhere are threads that sleep in calls whose entries are in the trace, all at one
// place, and one that is not traced: only those of its switches are there that bring a traced
// thread onto the CPU.
type asleepAnywhere struct {
	asleep
	called map[int]bool
	began  map[tracefs.Time]bool // sleeps with a record, by its time
}

const untraced = 14

// raw records an event of raw_syscalls.
func (f *asleepAnywhere) raw(tid, cpu int32, body string) {
	f.t++
	r := tracefs.Record{Kind: tracefs.KindEvent, TID: tid, CPU: cpu, Body: uint32(len(f.batch.Text))}
	f.batch.Text = append(f.batch.Text, body...)
	r.End = uint32(len(f.batch.Text))
	f.record(r, nil)
}

// step has a thread sleep, or wake up, and go on in its call or return from it.
func (f *asleepAnywhere) step() {
	f.mu.Lock()
	defer f.mu.Unlock()
	tid, cpu := 10+f.rnd.IntN(5), int32(f.rnd.IntN(2))
	if at := f.in[tid]; at != 0 {
		f.t++
		f.past[tid] = append(f.past[tid], [2]tracefs.Time{at, f.t})
		delete(f.in, tid)
		switch n := f.rnd.IntN(3); {
		case n == 0 || tid == untraced: // it makes no record until it sleeps again
		case n == 1:
			f.leaves(int32(tid), cpu, "R")
		default:
			f.raw(int32(tid), cpu, "sys_exit: NR 0 = 1")
			f.called[tid] = false
		}
		return
	}
	if tid != untraced && !f.called[tid] {
		f.raw(int32(tid), cpu, "sys_enter: NR 0 (3, 7ffc01234568, 0, 0, 0, 0)")
		f.called[tid] = true
	}
	if f.t++; tid != untraced || f.rnd.IntN(2) == 0 {
		f.leaves(int32(tid), cpu, [...]string{"S", "D"}[f.rnd.IntN(2)])
		f.began[f.t] = true
	}
	f.in[tid] = f.t
}

// same is asked for the time from the entry to the sleep, too.
func (f *asleepAnywhere) same(tid int, from, to tracefs.Time) bool {
	f.mu.Lock()
	sleeps := f.began[to]
	f.mu.Unlock()
	return sleeps || f.lookedAt.same(tid, from, to)
}

func runAsleepAnywhere(seed uint64, heed bool) *asleepAnywhere {
	f := &asleepAnywhere{asleep{newLookedAt(seed, 11)}, make(map[int]bool), make(map[tracefs.Time]bool)}
	f.drive(LookoutOptions{Read: f.read, Sleeps: true, Every: true, Same: f.same}, f.step, heed)
	return f
}

// TestEverySleepProves is TestSleepsProve where all threads are looked at: none that is not
// traced gets a stack, as it can have run and be asleep again.
func TestEverySleepProves(t *testing.T) {
	proves(t, func(seed uint64) *lookedAt { return &runAsleepAnywhere(seed, true).lookedAt }, keptAll)
}

// TestEverySleepNeedsLosses: without the word that records are missing, wrong ones would be
// taken for proven.
func TestEverySleepNeedsLosses(t *testing.T) {
	for seed := range uint64(400) {
		if runAsleepAnywhere(seed, false).wrong > 0 {
			return
		}
	}
	t.Error("the test of proofs has nothing that is lost late")
}

// TestEveryBudget: all threads in a call are looked at, within a budget; one that has returned
// is not, nor another one of its place.
func TestEveryBudget(t *testing.T) {
	s := sleeps{inside: new([1 << 12]waker)}
	const start = tracefs.Time(100e9)
	var c syscalls.RawCall
	s.call([]byte("sys_enter: NR 0 (3, 0, 0, 0, 0, 0)"), 7, start, &c)
	looked := 0
	for us := range 10000 { // 100 us each
		if since, ok := s.may(7, start+tracefs.Time(us)*1e5); ok {
			if looked++; since != start {
				t.Fatalf("since %d", since)
			}
		}
	}
	if looked < everyPerSecond-1 || looked > everyPerSecond+everyAtOnce {
		t.Errorf("%d sleeps of a second are looked at, want %d", looked, everyPerSecond)
	}
	later := start + 10e9
	if _, ok := s.may(7+1<<12, later); ok {
		t.Error("another thread is in a call")
	}
	s.call([]byte("sys_exit: NR 0 = 0"), 7, later, &c)
	if _, ok := s.may(7, later); ok {
		t.Error("the thread has returned")
	}
	s.call([]byte("sys_enter: NR 0 (3, 0, 0, 0, 0, 0)"), 7, later, &c)
	s.forget()
	if _, ok := s.may(7, later); ok {
		t.Error("the return may be missing")
	}
}
