package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/render/record"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// world is processes that come and go, as they were at the time of each event.
type world struct {
	rng     *rand.Rand
	now     tracefs.Time
	runs    int              // programs that have run
	files   int              // libraries that have been mapped
	threads map[int32]*owner // what is of each number now
	pids    []*owner
	past    map[tracefs.Time]moment
	trace   strings.Builder
}

// owner is a process with its program.
type owner struct {
	program program
	name    string
	mapped  map[uint64]*filemap.File // by address; none: in no file's data
}

// moment is what was true of the thread that made an event.
type moment struct {
	owner   owner
	unknown bool // the processes of this time are
	doubt   bool // whether what is mapped has stayed is
	blind   bool // what is mapped is
}

const step1 = tracefs.Time(1000) // of the clock of a text

var addrs = [...]uint64{0x1010, 0x2010, 0x3010}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), now: 1e9, threads: make(map[int32]*owner), past: make(map[tracefs.Time]moment)}
	for range 3 {
		w.pids = append(w.pids, w.run(int32(10*len(w.pids)+10)))
	}
	for tid := range int32(8) {
		w.threads[tid+30] = w.pids[int(tid)%len(w.pids)]
	}
	return w
}

// run is another program of a process's number.
func (w *world) run(pid int32) *owner {
	w.runs++
	o := &owner{program: program{pid, w.now, w.rng.IntN(3) > 0}, name: fmt.Sprint("prog", w.runs), mapped: make(map[uint64]*filemap.File)}
	for _, addr := range addrs {
		w.remap(o, addr)
	}
	return o
}

// remap maps another library at an address, or none, or one that was there before.
func (w *world) remap(o *owner, addr uint64) {
	o.mapped = clone(o.mapped)
	switch w.rng.IntN(4) {
	case 0:
		delete(o.mapped, addr)
	default:
		w.files++
		o.mapped[addr] = &filemap.File{Path: fmt.Sprintf("/lib%d", w.files)}
	}
}

func clone(m map[uint64]*filemap.File) map[uint64]*filemap.File {
	c := make(map[uint64]*filemap.File)
	for k, v := range m {
		c[k] = v
	}
	return c
}

// change changes something.
func (w *world) change() {
	i := w.rng.IntN(len(w.pids))
	switch w.rng.IntN(4) {
	case 0: // exec, or the number of the process is used again
		was := w.pids[i]
		w.pids[i] = w.run(was.program.pid)
		for tid, o := range w.threads {
			if o == was {
				w.threads[tid] = w.pids[i]
			}
		}
		if w.rng.IntN(2) == 0 {
			w.event(was.program.pid, fmt.Sprintf("sched_process_exec: filename=/p pid=%d old_pid=%d", was.program.pid, was.program.pid))
		}
	case 1: // the number of a thread
		tid := int32(30 + w.rng.IntN(8))
		w.threads[tid] = w.pids[i]
		if w.rng.IntN(2) == 0 {
			w.event(tid, fmt.Sprintf("sched_process_exit: comm=t pid=%d prio=120", tid))
		}
	default:
		w.remap(w.pids[i], addrs[w.rng.IntN(len(addrs))])
	}
}

// call has a thread call futex.
func (w *world) call() {
	tid := int32(30 + w.rng.IntN(8))
	moment := moment{*w.threads[tid], w.rng.IntN(30) == 0, w.rng.IntN(10) == 0, w.rng.IntN(30) == 0}
	for i := range tracefs.Time(3) {
		w.past[w.now+i*step1] = moment
	}
	addr := addrs[w.rng.IntN(len(addrs))]
	if w.rng.IntN(5) == 0 {
		w.event(tid, fmt.Sprintf("sys_futex(uaddr: 0x9010, op: 0x83, val: 1, utime: 1, uaddr2: 0x%x, val3: 0)", addr))
	} else {
		w.event(tid, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr))
	}
	if waker := int32(30 + w.rng.IntN(8)); waker != tid && w.threads[waker] == w.threads[tid] && w.rng.IntN(2) == 0 {
		w.event(waker, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", addr))
		w.event(waker, "sys_futex -> 0x1")
	}
	w.event(tid, "sys_futex -> 0x0")
}

func (w *world) event(tid int32, body string) {
	fmt.Fprintf(&w.trace, "%16s-%-7d [000] ..... %5d.%06d: %s\n", fmt.Sprintf("t%x", w.rng.Uint32()), tid, w.now/1e9, w.now%1e9/1e3, body)
	w.now += step1
}

// ProcessAt, Program, Name, Layout and Stays implement processes.
func (w *world) ProcessAt(_ int32, at tracefs.Time) (int32, bool) {
	m := w.past[at]
	return m.owner.program.pid, !m.unknown
}

func (w *world) Program(_ int32, at tracefs.Time) (tracefs.Time, bool) {
	p := w.past[at].owner.program
	return p.began, p.exact
}

func (w *world) Name(_ int32, at tracefs.Time) string { return w.past[at].owner.name }

func (w *world) Layout(_, _ int32, _ []byte, at tracefs.Time, _ bool, addr uint64) (filemap.Layout, filemap.Trust) {
	m := w.past[at]
	if f := m.owner.mapped[addr]; f != nil && !m.blind {
		return filemap.Layout{{Start: addr &^ 0xfff, End: addr | 0xfff, File: f, Code: true}}, filemap.Verified
	}
	return nil, filemap.NoTrust
}

func (w *world) Stays(_, _ int32, _ []byte, at tracefs.Time, _ bool, addr uint64, l filemap.Layout) proof.Stay {
	m := w.past[at]
	switch {
	case m.doubt:
		return proof.Assumed
	case l[0].File != m.owner.mapped[addr]:
		return proof.Gone
	}
	return proof.Stayed
}

// paths names variables by the path of their file.
type paths struct{}

func (paths) Place(filemap.Layout, uint64) (*filemap.File, uint64, bool) { return nil, 0, false }

func (paths) Variable(l filemap.Layout, _ uint64) *symbol.Variable {
	return &symbol.Variable{Name: l[0].File.Path, File: l[0].File}
}

// checkReport compares the names in a report with the world that it is of, and returns how many
// waits there are, and how many of locks with a name.
func (w *world) checkReport(t *testing.T, name string) (waits, named int) {
	t.Helper()
	a := futexesOf(t, name)
	a.NameLocks(paths{})
	r := a.Report(futex.View{})
	err := a.WaitCalls(r, futex.View{}, func(c *futex.WaitCall) error {
		if c.Lock == nil || c.Before {
			return nil
		}
		waits++
		truth, ok := w.past[c.From]
		if !ok {
			t.Errorf("a wait from %d", c.From)
		}
		if p := c.Lock.Process; p != nil && p.TGID > 0 && (p.TGID != truth.owner.program.pid || p.Program != truth.owner.name) {
			t.Errorf("%s: %d: a wait of %s-%d is of %s-%d", name, c.From, truth.owner.name, truth.owner.program.pid, p.Program, p.TGID)
		}
		v := c.Lock.Variable
		if v == nil {
			return nil
		}
		named++
		if f := truth.owner.mapped[c.Address]; f == nil || f.Path != v.Name {
			t.Errorf("%s: %d: the lock %#x of %s is %s, want %v", name, c.From, c.Address, truth.owner.name, v.Name, f)
		}
		return nil
	}, func(*futex.LostTime) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return waits, named
}

// futexesOf analyses a report.
func futexesOf(t *testing.T, name string) *futex.Analysis {
	t.Helper()
	trace, err := input.OpenAll([]string{name}, nil, input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	a := futex.New(futex.Options{Calls: true})
	res := resolve.New(resolve.Options{Stitch: true, Sources: 1})
	for {
		b := new(tracefs.Batch)
		err := trace.Next(b)
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := a.Batch(h); err != nil {
				t.Fatal(err)
			}
			res.Release(h)
		}
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// play has a world go on for a while, and passes its events to a sink.
func (w *world) play(t *testing.T, batches int, take func(*resolve.Pending) error) {
	t.Helper()
	for range batches {
		for range 1 + w.rng.IntN(40) {
			if w.rng.IntN(4) == 0 {
				w.change()
			}
			w.call()
		}
		if err := take(resolved(t, []byte(w.trace.String()))); err != nil {
			t.Fatal(err)
		}
		w.trace.Reset()
	}
}

// worlds is how many are tried.
func worlds() uint64 {
	if os.Getenv("USTACK_LONG") != "" {
		return 400
	}
	return 12
}

// TestPlacesTruth: of programs that come and go, with libraries that do, a report has no name
// that was of another time, also if it has room for a part of the places only.
func TestPlacesTruth(t *testing.T) {
	waits, named := 0, 0
	for seed := range worlds() {
		w := newWorld(seed)
		file, err := record.Create(filepath.Join(t.TempDir(), "report.zst"), 0)
		if err != nil {
			t.Fatal(err)
		}
		p := &places{processes: w, most: []int{mostPlaces, 5}[seed%2]}
		p.forget()
		report, err := record.NewReport(file, record.ReportOptions{Before: p.before})
		if err != nil {
			t.Fatal(err)
		}
		w.play(t, 20, report.Batch)
		if err := report.Close(new(resolve.Totals)); err != nil {
			t.Fatal(err)
		}
		n, with := w.checkReport(t, file.Name())
		waits, named = waits+n, named+with
	}
	if waits < 2000 || 2*named < waits {
		t.Errorf("%d waits, %d with a name", waits, named)
	}
}

// TestRingPlacesTruth: the same of a ring, from which any part can have gone.
func TestRingPlacesTruth(t *testing.T) {
	waits, named, left := 0, 0, 0
	for seed := range worlds() {
		w := newWorld(seed)
		name := filepath.Join(t.TempDir(), "report.zst")
		opt := Options{Name: name, Proc: "/proc", Version: "test", MaxSize: []int64{0, 20 << 10, 12 << 10}[seed%3],
			Reporter: &live.Reporter{Command: "record", Out: new(bytes.Buffer)}}
		o := NewRing(opt, RingOptions{Keep: []time.Duration{0, 20 * time.Second}[seed%2], MaxFiles: 9})
		clock := time.Unix(1000, 0)
		o.now = func() time.Time { clock = clock.Add(600 * time.Millisecond); return clock } // a chunk has a few batches
		if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		p := &places{processes: w, most: []int{mostPlaces, 8}[seed/2%2]}
		p.forget()
		o.keep(p)
		for i := range 2 {
			w.play(t, 60, o.Batch)
			if err := o.write(new(resolve.Totals)); err != nil {
				t.Fatal(err)
			}
			n, with := w.checkReport(t, name+[]string{"", ".1"}[i])
			waits, named = waits+n, named+with
			left += len(w.past) - n
		}
		if err := o.End(); err != nil {
			t.Fatal(err)
		}
	}
	if waits < 2000 || 2*named < waits || left < 2000 {
		t.Errorf("%d waits, %d with a name, %d others", waits, named, left)
	}
}

// TestPlacesMoved: a call that moves waiters has a line for each of its futexes.
func TestPlacesMoved(t *testing.T) {
	w := newWorld(1)
	f := &filemap.File{Path: "/lib"}
	w.past[w.now] = moment{owner: owner{program: program{10, 1, true}, name: "p", mapped: map[uint64]*filemap.File{0x1010: f, 0x2010: f}}}
	w.event(30, "sys_futex(uaddr: 0x1010, op: 0x83, val: 1, utime: 1, uaddr2: 0x2010, val3: 0)")
	h := resolved(t, []byte(w.trace.String()))
	p := &places{processes: w, most: mostPlaces}
	p.forget()
	lines := string(p.before(nil, h, &h.Records[0]))
	if strings.Count(lines, "\n") != 2 || !strings.Contains(lines, " futex=0x1010 trust=verified ") || !strings.Contains(lines, " futex=0x2010 trust=verified ") {
		t.Errorf("%q", lines)
	}
	if again := p.before(nil, h, &h.Records[0]); len(again) > 0 {
		t.Errorf("again %q", again)
	}
}
