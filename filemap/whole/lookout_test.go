package whole

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// lookedAt is a fakeTrace whose threads are looked at. All calls have the same arguments:
// what is proven must not depend on them.
type lookedAt struct {
	fakeTrace
	mu     sync.Mutex
	in     map[int]tracefs.Time // the call that a thread is in, by the time of its record
	past   map[int][][2]tracefs.Time
	proven int
	wrong  int
	l      *Lookout
}

// now is the time of the trace, which passes.
func (f *lookedAt) now() tracefs.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t++
	return f.t
}

// read is what is seen of a thread that waits.
func (f *lookedAt) read(tid, size int) (*blocked.Stack, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.in[tid] == 0 {
		return nil, blocked.ErrRunning
	}
	f.t += 2
	s := &blocked.Stack{TID: tid, PID: 1, From: f.t - 1, To: f.t, Call: unix.SYS_FUTEX, ABI: perf.ABI64,
		Args: [6]uint64{waitsFor, 128, 7}, Regs: perf.Registers{Machine: perf.AMD64}, Memory: make([]byte, size)}
	s.Regs.Set(16, returnsTo)
	return s, nil
}

// same is asked for what is proven: the thread is in the call of a record.
func (f *lookedAt) same(tid int, from, to tracefs.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proven++
	if f.in[tid] == from && to > from {
		return true
	}
	for _, p := range f.past[tid] {
		if p[0] == from && to > from && to < p[1] {
			return true
		}
	}
	f.wrong++
	return true
}

// step has a thread wait, or return.
func (f *lookedAt) step() {
	f.mu.Lock()
	defer f.mu.Unlock()
	tid, cpu := 10+f.rnd.IntN(4), int32(f.rnd.IntN(2))
	if at := f.in[tid]; at != 0 {
		f.exit(int32(tid), cpu)
		f.past[tid] = append(f.past[tid], [2]tracefs.Time{at, f.t})
		delete(f.in, tid)
		return
	}
	f.call(int32(tid), cpu, 0, true)
	f.in[tid] = f.t
}

// newLookedAt returns threads whose behavior depends on a seed.
func newLookedAt(seed, stream uint64) lookedAt {
	return lookedAt{fakeTrace: fakeTrace{rnd: rand.New(rand.NewPCG(seed, stream)), t: 1e9, bursts: 6},
		in: make(map[int]tracefs.Time), past: make(map[int][][2]tracefs.Time)}
}

func runLookedAt(seed uint64, heed bool) *lookedAt {
	f := newLookedAt(seed, 7)
	f.drive(LookoutOptions{Read: f.read}, f.step, heed)
	return &f
}

// drive has threads make steps while a Lookout looks on. With heed it gets the word that records
// are missing.
func (f *lookedAt) drive(opt LookoutOptions, step func(), heed bool) {
	stage := New(Options{Now: f.now, Space: func(int, tracefs.Time) (int, *space.Space, bool) { return 0, nil, false }})
	defer stage.Close()
	opt.Stage, opt.Settle = stage, func(tracefs.Time) error { return nil }
	if opt.Same == nil {
		opt.Same = f.same
	}
	f.l = NewLookout(opt)
	defer f.l.Close()
	f.l.after = 1
	for range 200 {
		f.l.other.left = sleepsAtOnce
		for range 1 + f.rnd.IntN(8) {
			step()
		}
		f.mu.Lock()
		b, losing := f.batch, heed && (f.lost[0] || f.lost[1])
		f.batch, f.samples = tracefs.Batch{}, nil
		f.mu.Unlock()
		f.l.Put(&b, Arrival{Losing: losing})
		for h := f.l.Next(); h != nil; h = f.l.Next() {
			f.l.Free(h)
		}
		if f.rnd.IntN(3) == 0 {
			time.Sleep(20 * time.Microsecond) // for the queue
		}
	}
	f.l.End(0)
}

// proves has threads be looked at in many ways: whatever is lost of the records, none gets the
// stack of another call or sleep. counted reports whether what was proven is counted so.
func proves(t *testing.T, run func(seed uint64) *lookedAt, counted func(c *LookoutCounts, proven uint64) bool) {
	t.Helper()
	proven := 0
	for seed := range uint64(60) {
		f := run(seed)
		if f.wrong > 0 {
			t.Errorf("seed %d: %d of %d are wrong", seed, f.wrong, f.proven)
		}
		proven += f.proven
		if c := f.l.Counts(); !counted(&c, uint64(f.proven)) {
			t.Errorf("seed %d: %d proven, counted as %+v", seed, f.proven, c)
		}
	}
	t.Logf("%d proven", proven)
	if proven < 100 {
		t.Errorf("only %d are proven", proven)
	}
}

// keptAll reports whether what was proven is counted as waits.
func keptAll(c *LookoutCounts, proven uint64) bool {
	return c.Sleeps == 0 && c.Kept == proven && c.Waits >= c.Kept+c.Refused
}

// TestLookoutProves: whatever is lost of the records, and whenever a thread is looked at,
// no record gets the stack of another call.
func TestLookoutProves(t *testing.T) {
	proves(t, func(seed uint64) *lookedAt { return runLookedAt(seed, true) }, keptAll)
}

// TestLookoutNeedsLosses: without the word that records are missing, wrong ones would be
// taken for proven.
func TestLookoutNeedsLosses(t *testing.T) {
	for seed := range uint64(400) {
		if runLookedAt(seed, false).wrong > 0 {
			return
		}
	}
	t.Error("the test of proofs has nothing that is lost late")
}

// TestLookoutArguments: a thread that is in another call, or elsewhere, is not taken.
func TestLookoutArguments(t *testing.T) {
	good := func() *blocked.Stack {
		s := &blocked.Stack{TID: 5, From: 20, To: 21, Call: unix.SYS_FUTEX, ABI: perf.ABI64, Args: [6]uint64{waitsFor, 128, 7}, Regs: perf.Registers{Machine: perf.AMD64}}
		s.Regs.Set(16, returnsTo)
		return s
	}
	w := &wait{tid: 5, at: 10, pc: returnsTo, call: asked(good())}
	if !w.in(good()) {
		t.Fatal("the thread is not in the call")
	}
	for what, change := range map[string]func(s *blocked.Stack){
		"another futex":    func(s *blocked.Stack) { s.Args[0]++ },
		"another command":  func(s *blocked.Stack) { s.Args[1] = 137 },
		"another value":    func(s *blocked.Stack) { s.Args[2]++ },
		"with a timeout":   func(s *blocked.Stack) { s.Args[3]++ },
		"another call":     func(s *blocked.Stack) { s.Call = unix.SYS_RESTART_SYSCALL },
		"a 32-bit process": func(s *blocked.Stack) { s.ABI = perf.ABI32 },
		"elsewhere":        func(s *blocked.Stack) { s.Regs.Set(16, returnsTo+1) },
		"before":           func(s *blocked.Stack) { s.From = w.at },
	} {
		s := good()
		if change(s); w.in(s) {
			t.Errorf("%s: the thread is in the call", what)
		}
	}
}

// TestLookoutHolds: a batch waits for the stacks of its waits, and not for long.
func TestLookoutHolds(t *testing.T) {
	f := &lookedAt{fakeTrace: fakeTrace{rnd: rand.New(rand.NewPCG(3, 3)), t: 1e9}, in: make(map[int]tracefs.Time), past: make(map[int][][2]tracefs.Time)}
	hangs := make(chan bool)
	stage := New(Options{Now: f.now})
	defer stage.Close()
	l := NewLookout(LookoutOptions{Stage: stage, Read: func(int, int) (*blocked.Stack, error) {
		<-hangs
		return nil, errors.New("no answer")
	}})
	defer l.Close()
	defer close(hangs)
	for len(f.in) == 0 || len(f.batch.Records) < 2 {
		f.step()
	}
	b := f.batch
	f.batch = tracefs.Batch{}
	l.Put(&b, Arrival{Size: 5, Lines: 2})
	if l.Next() != nil || l.Pause() == 0 {
		t.Fatal("the batch is not held")
	}
	f.mu.Lock()
	f.t += maxHold
	f.mu.Unlock()
	h := l.Next()
	if h == nil || len(h.Batch.Records) < 2 || h.Arrival != (Arrival{Size: 5, Lines: 2}) || l.Pause() != 0 {
		t.Fatalf("got %+v", h)
	}
	if c := l.Counts(); c.Missed == 0 || c.Missed != c.Waits {
		t.Errorf("counted as %+v", c)
	}
}
