package tasks

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"ustack/filemap/space"
	"ustack/tracefs"
)

var (
	worlds    = flag.Int("worlds", 0, "random worlds of TestWorld, with and without loss (10, with USTACK_LONG=1 150)")
	worldSeed = flag.Uint64("world-seed", 1, "the first world of TestWorld")
)

// world is a machine whose processes map, unmap, move, fork, execute and end at random, with
// the truth. Time passes in small steps, also while a process is asked. A call has an entry, a
// moment of its effect, and a return, each at some time; its records become readable late, but
// that of the entry before the effect, and that of the return before the thread goes on.
type world struct {
	rng *rand.Rand
	now tracefs.Time
	// drained is up to when Tasks have all records that were complete.
	drained tracefs.Time
	lossy   bool
	tasks   *Tasks
	spaces  *space.Spaces
	spawn   int // next number of a task
	reuse   []int
	procs   map[int]*proc
	tids    map[int]*thread
	cpus    [worldCPUs]worldCPU
	files   int
	mems    int
	open    []question
	spans   []worldSpan
	spanRng *rand.Rand // of its own: the worlds are what they were
	counts  worldCounts
	asking  int // depth of steps within answers
	fail    func(format string, args ...any)
}

const (
	worldCPUs = 3
	slot      = uint64(0x1000)
	slots     = 6 // pages at which there is code
	worldBase = uint64(0x10000)
	maxTasks  = 14
)

type worldCounts struct{ answers, named, wrong, lost, kept int }

// mm is a memory: a file in each slot, 0 for none, and when it last lost one.
type mm struct {
	id   int
	has  [slots]int
	lost tracefs.Time
}

type proc struct {
	pid     int
	mem     *mm
	threads []*thread
}

// thread is in a call, or outside.
type thread struct {
	tid  int
	proc *proc
	cpu  int
	call *worldCall
	dead bool
}

// worldCall is a call that is under way.
type worldCall struct {
	enter   Event
	effects []func() uint64 // to be done one after the other; the last one gives the result
	result  uint64
	after   func() // instead of a return
	begun   bool   // the record of the entry can be read
	shown   tracefs.Time
}

// worldCPU has the records of a CPU that have not been read.
type worldCPU struct {
	queue []worldRecord
	last  tracefs.Time // of the last record that was read
	lost  bool         // there are records missing before the next one
}

type worldRecord struct {
	e     Event
	ready tracefs.Time // when it can be read
}

// question is where an address was, to be asked later.
type question struct {
	tid, pid int
	addr     uint64
	at       tracefs.Time
	file     int
}

func newWorld(seed uint64, lossy bool, fail func(string, ...any)) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), spanRng: rand.New(rand.NewPCG(seed, 8)), now: 1e9, lossy: lossy, spaces: space.New(), spawn: 100,
		procs: make(map[int]*proc), tids: make(map[int]*thread), fail: fail}
	for range 1 + w.rng.IntN(4) {
		p := w.process(w.memory())
		for i := range p.mem.has {
			p.mem.has[i] = w.file()
		}
	}
	w.tasksBegin()
	return w
}

// tasksBegin begins to trace: what is under way then has no record of its entry.
func (w *world) tasksBegin() {
	for range w.rng.IntN(200) {
		w.step()
	}
	for i := range w.cpus {
		w.cpus[i].queue = nil
	}
	w.now += 10
	w.tasks = New(w.spaces, w, func() tracefs.Time { return w.now }, w.now)
	w.tasks.censusEvery = tracefs.Time(w.rng.IntN(1e6))
	w.open = nil
}

func (w *world) file() int {
	if w.rng.IntN(3) == 0 {
		return 0
	}
	w.files++
	return w.files
}

func (w *world) memory() *mm {
	w.mems++
	return &mm{id: w.mems * 7919 % 1009}
}

// number is the number of a new task: at times that of one that has ended.
func (w *world) number() int {
	if n := len(w.reuse); n > 3 && w.rng.IntN(2) == 0 {
		tid := w.reuse[0]
		w.reuse = w.reuse[1:]
		return tid
	}
	w.spawn++
	return w.spawn
}

func (w *world) process(m *mm) *proc {
	p := &proc{mem: m}
	th := w.thread(p)
	p.pid = th.tid
	w.procs[p.pid] = p
	return p
}

func (w *world) thread(p *proc) *thread {
	th := &thread{tid: w.number(), proc: p, cpu: w.rng.IntN(worldCPUs)}
	p.threads = append(p.threads, th)
	w.tids[th.tid] = th
	return th
}

// record makes a record, which can be read at once, or somewhat later.
func (w *world) record(cpu int, e Event) (ready tracefs.Time) {
	e.Time, ready = w.now, w.now
	if w.rng.IntN(4) == 0 {
		ready += tracefs.Time(w.rng.IntN(6000))
	}
	c := &w.cpus[cpu]
	if n := len(c.queue); n > 0 {
		ready = max(ready, c.queue[n-1].ready) // a ring is written in order
	}
	c.queue = append(c.queue, worldRecord{e, ready})
	if w.lossy && w.tasks != nil && w.rng.IntN(120) == 0 {
		w.overrun(c)
	}
	return ready
}

// overrun loses the first records of a CPU: others that came later, and can be read, stay.
func (w *world) overrun(c *worldCPU) {
	n := w.rng.IntN(len(c.queue))
	if c.queue[n].ready <= w.now && n > 0 {
		c.queue = c.queue[n:]
		c.lost = true
		w.counts.lost += n
	}
}

// step has some time pass, in which something happens. While a process is asked, too.
func (w *world) step() {
	w.now += tracefs.Time(1 + w.rng.IntN(3000))
	var list []*thread
	for _, th := range w.tids {
		list = append(list, th)
	}
	if len(list) == 0 {
		w.process(w.memory()) // of the kernel, as it were; seen as any other
		return
	}
	slices.SortFunc(list, func(a, b *thread) int { return a.tid - b.tid })
	for range 1 + w.rng.IntN(3) {
		th := list[w.rng.IntN(len(list))]
		w.now++
		switch {
		case th.dead:
		case th.call == nil && w.rng.IntN(3) == 0:
			w.enter(th)
		case th.call != nil && w.rng.IntN(2) == 0:
			w.advance(th)
		case w.rng.IntN(8) == 0:
			th.cpu = w.rng.IntN(worldCPUs)
		}
		w.now++
		w.question(list)
		w.span(list)
	}
}

// question notes where addresses are now.
func (w *world) question(list []*thread) {
	if w.tasks == nil || len(w.open) > 5000 {
		return
	}
	th := list[w.rng.IntN(len(list))]
	if th.dead {
		return
	}
	i := w.rng.IntN(slots)
	if th.call != nil && th.call.enter.Kind == Exec && th.call.begun {
		return // it has no stack of the program that is loaded; see TestExecuting
	}
	w.open = append(w.open, question{th.tid, th.proc.pid, worldBase + uint64(i)*slot + 8, w.now, th.proc.mem.has[i]})
}

// advance has a call do the next thing.
func (w *world) advance(th *thread) {
	c := th.call
	if w.now < c.shown {
		return // its record is not complete
	}
	switch {
	case len(c.effects) > 0:
		c.begun = true
		m := th.proc.mem
		before := m.has
		c.result = c.effects[0]()
		m.lose(before[:], w.now)
		c.effects = c.effects[1:]
		if len(c.effects) == 0 && c.after == nil {
			return
		}
	case c.after != nil:
		c.after()
		c.after, c.enter.Return = nil, true
		for _, r := range w.cpus[th.cpu].queue {
			c.shown = max(c.shown, r.ready)
		}
	case c.enter.Return: // its record is complete: it goes on
		th.call = nil
	default:
		c.enter.Return = true
		c.shown = w.record(th.cpu, Event{TID: th.tid, Kind: c.enter.Kind, Return: true, Args: [5]uint64{c.result}})
	}
}

// drain gives Tasks the records that can be read.
func (w *world) drain() error {
	until := w.now
	w.now += tracefs.Time(w.rng.IntN(200))
	var ready []Event
	for i := range w.cpus {
		c := &w.cpus[i]
		if c.lost {
			c.lost = false
			w.tasks.Lose(c.last, max(c.last, c.queue[0].e.Time))
		}
		n := 0
		for n < len(c.queue) && c.queue[n].ready <= w.now && c.queue[n].e.Time <= until {
			ready = append(ready, c.queue[n].e)
			n++
		}
		if n > 0 {
			c.last = c.queue[n-1].e.Time
		}
		c.queue = c.queue[n:]
	}
	slices.SortStableFunc(ready, func(a, b Event) int { return int(a.Time - b.Time) })
	for _, e := range ready {
		w.tasks.Add(e)
	}
	w.tasks.Drained(until)
	w.drained = until
	return nil
}

// check asks Tasks the questions.
func (w *world) check() {
	later := w.open[:0:0]
	for _, q := range w.open {
		if q.at >= w.drained {
			later = append(later, q)
			continue
		}
		w.counts.answers++
		pid, _, ok := w.tasks.PID(q.tid, q.at)
		if !ok {
			continue
		}
		place, found := w.spaces.Space(pid).Lookup(q.addr, q.at)
		if !found || !w.spaces.Space(pid).At(q.at).Knows(q.addr) {
			continue
		}
		w.counts.named++
		if got := place.Mapping.File.Name; q.file == 0 || got != worldName(q.file) || pid != q.pid {
			w.counts.wrong++
			w.fail("at %d thread %d of %d: %#x is %s in %d, want %s", q.at, q.tid, q.pid, q.addr, got, pid, worldName(q.file))
		}
	}
	w.open = later
	w.checkKept()
}

// run has the world go on, with Tasks settling now and then.
func (w *world) run(steps int) {
	calm := 1 + w.rng.IntN(30) // steps between two looks
	for range steps {
		w.step()
		if w.rng.IntN(calm) > 0 {
			continue
		}
		if w.tasks.Settle(w.drain) != nil {
			return
		}
		if w.rng.IntN(3) == 0 {
			w.check()
		}
		if w.rng.IntN(40) == 0 && len(w.procs) > 0 {
			pids, _ := w.PIDs()
			_ = w.tasks.Reread(pids[w.rng.IntN(len(pids))], w.drain)
		}
		if w.rng.IntN(20) == 0 {
			w.tasks.Reached(w.now)
		}
	}
	_ = w.tasks.Settle(w.drain)
	w.check()
}

// TestWorld: whatever happens, no answer is wrong.
func TestWorld(t *testing.T) {
	n := *worlds
	if n == 0 {
		if n = 10; os.Getenv("USTACK_LONG") != "" {
			n = 150
		}
	}
	for _, lossy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossy=%v", lossy), func(t *testing.T) {
			var all worldCounts
			for i := range uint64(n) {
				seed := *worldSeed + i
				w := newWorld(seed, lossy, func(format string, args ...any) {
					if all.wrong < 10 {
						t.Errorf("world %d: "+format, append([]any{seed}, args...)...)
					}
				})
				w.run(3000)
				all.answers += w.counts.answers
				all.named += w.counts.named
				all.wrong += w.counts.wrong
				all.lost += w.counts.lost
				all.kept += w.counts.kept
			}
			t.Logf("%d worlds: %d answers, %d with a name, %d times kept, %d wrong; %d records lost", n, all.answers, all.named, all.kept, all.wrong, all.lost)
			if all.kept < 100*n && !lossy {
				t.Errorf("processes kept their mappings %d times", all.kept)
			}
			if all.named*5 < all.answers && !lossy {
				t.Errorf("%d of %d answers have a name", all.named, all.answers)
			}
		})
	}
}
