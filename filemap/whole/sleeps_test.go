package whole

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/tracefs"
	"ustack/tracefs/perf"
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
	proven := 0
	for seed := range uint64(60) {
		f := runAsleep(seed, true)
		if f.wrong > 0 {
			t.Errorf("seed %d: %d of %d are wrong", seed, f.wrong, f.proven)
		}
		proven += f.proven
		if c := f.l.Counts(); c != (LookoutCounts{}) {
			t.Errorf("seed %d: sleeps are counted as waits: %+v", seed, c)
		}
	}
	t.Logf("%d proven", proven)
	if proven < 100 {
		t.Errorf("only %d are proven", proven)
	}
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
		if s.may(7, start+tracefs.Time(ms)*1e6) {
			looked++
		}
		if s.may(8, start+tracefs.Time(ms)*1e6) {
			t.Fatal("a thread is looked at that has not let others go on")
		}
	}
	if looked < sleepsPerSecond-1 || looked > sleepsPerSecond+sleepsAtOnce {
		t.Errorf("%d sleeps of a second are looked at, want %d", looked, sleepsPerSecond)
	}
	if s.may(7, start+2*wakesFor) {
		t.Error("it counts for ever that a thread has let others go on")
	}
	s.wakes(7+int32(len(s.wakers)), start+3*wakesFor)
	if s.may(7, start+3*wakesFor) {
		t.Error("another thread has let others go on")
	}
}
