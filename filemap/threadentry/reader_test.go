package threadentry

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"ustack/filemap/bounded"
	"ustack/filemap/callsite"
	"ustack/filemap/fusetest"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// site is that of start_thread of glibc 2.36.
var site = callsite.Start{Head: 0x2e0, Pointer: 0x638}

var errGone = errors.New("no such thread")

// task is a thread that is not there: where it lies, with what it began, and when.
type task struct {
	self, start uint64
	from        tracefs.Time
	noList      bool
}

const ticks = tracefs.Time(10e6)

// fake is a machine whose threads are in a table. Its clock goes on with each
// question.
type fake struct {
	clock   tracefs.Time
	tasks   map[int]*task
	words   map[uint64]uint64 // of memory, if it is not as the tasks say
	asked   int
	listed  int
	ended   map[int][]life
	sure    bool // the reports of lives
	settled int
	then    func() // after the memory was read
}

func (f *fake) now() tracefs.Time {
	f.clock++
	return f.clock
}

func (f *fake) list(tid int) (uint64, error) {
	f.clock++
	f.listed++
	t := f.tasks[tid]
	switch {
	case t == nil:
		return 0, errGone
	case t.noList:
		return 0, nil
	}
	return t.self + uint64(site.Head), nil
}

func (f *fake) memory(tid int, a uint64, toA []byte, b uint64, toB []byte) error {
	f.clock++
	f.asked++
	t := f.tasks[tid]
	if t == nil {
		return errGone
	}
	for at := range len(toA) / 8 {
		binary.NativeEndian.PutUint64(toA[8*at:], f.word(t, a+uint64(8*at)))
	}
	binary.NativeEndian.PutUint64(toB, f.word(t, b))
	if f.then != nil {
		f.then()
	}
	return nil
}

func (f *fake) word(t *task, at uint64) uint64 {
	if w, ok := f.words[at]; ok {
		return w
	}
	switch at {
	case t.self, t.self + 16:
		return t.self
	case t.self + uint64(site.Pointer):
		return t.start
	}
	return 0x7777
}

// began is the tick in which it began, as proc says.
func (f *fake) began(tid int) (earliest, latest tracefs.Time, err error) {
	f.clock++
	t := f.tasks[tid]
	if t == nil {
		return 0, 0, errGone
	}
	return t.from / ticks * ticks, (t.from/ticks + 1) * ticks, nil
}

// end ends a thread.
func (f *fake) end(tid int) {
	if t := f.tasks[tid]; t != nil {
		f.ended[tid] = append(f.ended[tid], life{*t, f.clock})
		delete(f.tasks, tid)
	}
}

// life is a thread that has ended.
type life struct {
	task
	to tracefs.Time
}

// Life implements Lives.
func (f *fake) Life(tid int, at tracefs.Time) (born, ended tracefs.Time, ok bool) {
	for _, l := range f.ended[tid] {
		if l.from <= at && at < l.to {
			return l.from, l.to, f.sure
		}
	}
	if t := f.tasks[tid]; t != nil && t.from <= at {
		return t.from, space.Forever, f.sure
	}
	return 0, 0, false
}

// Settle implements Lives.
func (f *fake) Settle() error {
	f.settled++
	return nil
}

func newFake() (*fake, *Reader) {
	f := &fake{clock: 1e9, sure: true, ended: make(map[int][]life), tasks: map[int]*task{7: {self: 0x7f0000001000, start: 0x401000, from: 5e8}}}
	return f, &Reader{machine: f}
}

// TestReader: what is known of a thread is so from its beginning to when it was
// asked, and it is asked no more than that needs.
func TestReader(t *testing.T) {
	f, r := newFake()
	start := func(at tracefs.Time, want uint64, asked int) {
		t.Helper()
		if got, ok := r.Start(7, at, &site); got != want && ok || ok != (want != 0) || f.asked != asked {
			t.Errorf("at %d: %#x, %v, asked %d times; want %#x, %d", at, got, ok, f.asked, want, asked)
		}
	}
	start(9e8, 0x401000, 1)
	start(9.5e8, 0x401000, 1)
	start(9e8, 0x401000, 1)
	start(4e8, 0, 1) // another thread had the number
	start(5.05e8, 0, 1)
	start(5.1e8, 0, 1) // time stamps are not that exact
	start(5.1e8+stamp, 0x401000, 1)
	f.clock = 2e9
	start(1.5e9, 0x401000, 2)
	start(1.9e9, 0x401000, 2)
	start(2e9+1e6, 0, 3) // not read after it: unknown
	delete(f.tasks, 7)
	f.clock = 3e9
	start(1.9e9, 0x401000, 3) // it has ended, and what was so was so
	start(2.5e9, 0, 3)
	start(2.6e9, 0, 3)
	if f.listed != 7 {
		t.Errorf("asked %d times where the list is", f.listed)
	}
}

// TestReaderLives: reading a thread once is enough if its beginning and end are
// reported.
func TestReaderLives(t *testing.T) {
	f, r := newFake()
	r.lives = f
	f.tasks[7].from = 5.03e8
	f.clock = 5.05e8
	start := func(at tracefs.Time, want uint64, asked int) {
		t.Helper()
		if got, ok := r.Start(7, at, &site); got != want && ok || ok != (want != 0) || f.asked != asked {
			t.Errorf("at %d: %#x, %v, asked %d times; want %#x, %d", at, got, ok, f.asked, want, asked)
		}
	}
	start(5.04e8, 0x401000, 1)
	start(5.03e8+stamp, 0x401000, 1)
	start(5.03e8, 0, 1) // time stamps are not that exact
	f.clock = 2e9
	start(1.5e9, 0x401000, 1)
	f.end(7)
	start(2e9-stamp-1, 0x401000, 1)
	start(2e9, 0, 1)
	f.clock = 3e9
	f.tasks[7] = &task{self: 0x7f0000001000, start: 0x402000, from: 2.5e9}
	start(1.5e9, 0x401000, 1)
	start(2.9e9, 0x402000, 2)
	start(1.5e9, 0, 2) // forgotten
	f.sure = false     // something was lost
	start(2.9e9, 0x402000, 2)
	start(2.95e9, 0x402000, 2)
	start(3.5e9, 0, 3)
	f.clock = 4e9
	start(3.7e9, 0x402000, 4)
	if f.settled != 2 {
		t.Errorf("settled %d times", f.settled)
	}
}

// TestReaderLivesRefused: a report is not believed if proc contradicts it, or it
// may be of another thread.
func TestReaderLivesRefused(t *testing.T) {
	for what, change := range map[string]func(*fake){
		"in the tick before": func(f *fake) { f.ended[7] = []life{{task{from: 4.9999e8}, space.Forever}} },
		"in the next one":    func(f *fake) { f.ended[7] = []life{{task{from: 5.1001e8}, space.Forever}} },
		"has ended since":    func(f *fake) { f.ended[7] = []life{{task{from: 5.03e8}, 5.2e8 + 1e6}} },
		"not sure":           func(f *fake) { f.sure = false },
	} {
		f, r := newFake()
		r.lives = f
		f.tasks[7].from, f.clock = 5.03e8, 5.2e8
		change(f)
		if _, ok := r.Start(7, 5.04e8, &site); ok {
			t.Errorf("%s: believed", what)
		}
		if _, ok := r.Start(7, 5.15e8, &site); !ok {
			t.Errorf("%s: what proc says is not", what)
		}
		if _, ok := r.Start(7, 5.3e8, &site); ok {
			t.Errorf("%s: believed of what comes", what)
		}
	}
}

// TestReaderRefuses: memory that is not exactly a thread of the C library has
// begun with nothing.
func TestReaderRefuses(t *testing.T) {
	for what, change := range map[string]func(*fake){
		"no thread":               func(f *fake) { delete(f.tasks, 7) },
		"no list":                 func(f *fake) { f.tasks[7].noList = true },
		"no pointer to itself":    func(f *fake) { f.words = map[uint64]uint64{0x7f0000001000: 0x7f0000001040} },
		"only the first of them":  func(f *fake) { f.words = map[uint64]uint64{0x7f0000001010: 0} },
		"a list elsewhere":        func(f *fake) { f.tasks[7].self += 8; f.words = map[uint64]uint64{0x7f0000001008: 0x7f0000001000} },
		"no function":             func(f *fake) { f.tasks[7].start = 0 },
		"not sure when it began":  func(f *fake) { f.tasks[7].from = 1e9 - 1 },
		"ends while it is read":   func(f *fake) { f.then = func() { f.tasks[7].noList = true } },
		"ended when it was read":  func(f *fake) { f.then = func() { delete(f.tasks, 7) } },
		"moved while it was read": func(f *fake) { f.then = func() { f.tasks[7].self += 0x1000 } },
		"another one, begun since": func(f *fake) {
			f.then = func() { f.tasks[7] = &task{self: 0x7f0000001000, start: 0x402000, from: f.clock} }
		},
	} {
		f, r := newFake()
		change(f)
		for range 2 {
			if got, ok := r.Start(7, 9e8, &site); ok {
				t.Errorf("%s: %#x", what, got)
			}
		}
		if f.asked > 1 {
			t.Errorf("%s: asked %d times for the same moment", what, f.asked)
		}
	}
	f, r := newFake()
	for _, other := range []callsite.Start{{}, {Head: 0x2d8, Pointer: 0x638}} {
		if got, ok := r.Start(7, 9e8, &other); ok {
			t.Errorf("%+v: %#x", other, got)
		}
		f.clock += 1e9
	}
}

// TestReaderReuse: threads come and go, and take each other's numbers and memory.
// Whatever is said of a stack is what its own thread began with.
func TestReaderReuse(t *testing.T) {
	t.Run("by proc", func(t *testing.T) { testReuse(t, false) })
	t.Run("reported", func(t *testing.T) { testReuse(t, true) })
}

func testReuse(t *testing.T, reported bool) {
	random := rand.New(rand.NewPCG(3, 4))
	f, r := newFake()
	if reported {
		r.lives = f
	}
	clear(f.tasks)
	birth := func(tid int) {
		f.tasks[tid] = &task{self: 0x7f0000001000 + uint64(random.IntN(3))<<12, start: 0x400000 + random.Uint64N(1<<20), from: f.clock}
	}
	f.then = func() {
		if tid := 1 + random.IntN(4); random.IntN(4) == 0 {
			f.end(tid)
			if random.IntN(2) == 0 {
				birth(tid)
			}
		}
	}
	right, unknown := 0, 0
	for range 100000 {
		f.clock += tracefs.Time(random.Int64N(int64(ticks)))
		f.sure = random.IntN(8) > 0
		tid := 1 + random.IntN(4)
		switch random.IntN(20) {
		case 0:
			f.end(tid)
			birth(tid)
		case 1:
			f.end(tid)
		}
		at := f.clock - tracefs.Time(random.Int64N(int64(5*ticks)))
		got, ok := r.Start(tid, at, &site)
		if !ok {
			unknown++
			continue
		}
		want := uint64(0)
		for _, l := range f.ended[tid] {
			if l.from <= at && at <= l.to {
				want = l.start
			}
		}
		if now := f.tasks[tid]; now != nil && now.from <= at {
			want = now.start
		}
		if right++; got != want {
			t.Fatalf("thread %d at %d: %#x, want %#x", tid, at, got, want)
		}
	}
	t.Logf("%d right, %d unknown", right, unknown)
	if right < 1000 || unknown < 1000 {
		t.Error("too few of one kind to be a test")
	}
}

// TestReaderExec: a number stays with who executes another program. What it was
// before is so before.
func TestReaderExec(t *testing.T) {
	f, r := newFake()
	if got, ok := r.Start(7, 9e8, &site); !ok || got != 0x401000 {
		t.Errorf("%#x, %v", got, ok)
	}
	before := f.clock
	f.clock = 2e9
	f.tasks[7].start = 0x501000
	if got, ok := r.Start(7, before+1e6, &site); ok {
		t.Errorf("%#x: it may have been before or after", got)
	}
	f.clock = 3e9
	if got, ok := r.Start(7, 2.5e9, &site); !ok || got != 0x501000 {
		t.Errorf("%#x, %v", got, ok)
	}
	if got, ok := r.Start(7, before+1e6, &site); ok {
		t.Errorf("%#x: it may have been before or after", got)
	}
}

// TestReaderBudget: however many threads there are, they are asked so often only,
// and kept so many only.
func TestReaderBudget(t *testing.T) {
	f, r := newFake()
	for tid := range 5 * maxThreads {
		f.tasks[tid+1] = &task{self: 0x7f0000001000, start: 0x401000, from: 5e8}
		r.Start(tid+1, 9e8, &site)
		if len(r.threads) > maxThreads {
			t.Fatalf("%d threads are kept", len(r.threads))
		}
	}
	if f.asked > mostAtOnce+1 {
		t.Errorf("asked %d times", f.asked)
	}
	was := f.asked
	f.clock += 100 * each
	for tid := range 1000 {
		r.Start(1e6+tid, 9e8, &site)
		f.tasks[1e6+tid] = &task{}
		r.Start(tid+1, 1e9, &site)
	}
	if n := f.asked - was; n > 102 {
		t.Errorf("asked %d times more", n)
	}
}

// TestHeldExec: a process that is kept in the middle of an exec by a file system in user
// space keeps nothing waiting.
func TestHeldExec(t *testing.T) {
	h := fusetest.StartHeld(t)
	r, err := NewReader("", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Hold(t)
	h.Within(t, 20*bounded.DefaultWait, func() {
		if _, err := r.machine.list(h.PID); err == nil {
			t.Log("the kernel does not wait for an exec here")
		}
		if _, _, err := r.machine.began(h.PID); err == nil {
			t.Log("nor for that")
		}
	})
}
