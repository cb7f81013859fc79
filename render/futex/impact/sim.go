package impact

import (
	"container/heap"
	"math/rand/v2"
	"slices"

	"ustack/tracefs"
)

// policy is how a released lock finds its next owner.
type policy uint8

const (
	barging policy = iota // the thread that comes first, as in glibc
	fifo                  // the thread that has waited longest
)

// quantum is how long a thread runs if others want the CPU, as the kernel's base slice.
const quantum = tracefs.Time(3e6)

// sim replays a program.
type sim struct {
	p       *program
	policy  policy
	change  func(o *op) // what is done otherwise
	shards  map[int32]int
	removed map[int32]bool
	rand    *rand.Rand

	now    tracefs.Time
	tasks  []task
	queue  wakeups
	seq    int64
	ready  []int32
	free   int
	locks  map[lockPart]*simLock
	events []simEvent
	waited map[int32]tracefs.Time // by lock
	steps  int
}

// lockPart is a lock, or one of those that it was made into.
type lockPart struct {
	lock int32
	part int
}

type simLock struct {
	owner int32 // -1 for none
	queue []int32
}

type simEvent struct {
	done   bool
	waiter int32 // -1 for none
}

// task is a thread of a replay.
type task struct {
	ops    []op
	pc     int
	left   tracefs.Time // of the operation
	onCPU  bool
	since  tracefs.Time
	waited bool
	parts  map[int32]int // of the locks that it holds
}

// wakeup is when a task goes on.
type wakeup struct {
	at   tracefs.Time
	seq  int64
	task int32
	run  tracefs.Time // what it has had of a CPU, 0 for none
}

type wakeups []wakeup

func (w wakeups) Len() int { return len(w) }
func (w wakeups) Less(i, j int) bool {
	return w[i].at < w[j].at || w[i].at == w[j].at && w[i].seq < w[j].seq
}
func (w wakeups) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *wakeups) Push(x any)   { *w = append(*w, x.(wakeup)) }
func (w *wakeups) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}

// maxSteps bounds a replay.
const maxSteps = 16 << 20

// run replays the program, and returns how long it took.
func (s *sim) run(seed uint64) tracefs.Time {
	s.rand = rand.New(rand.NewPCG(seed, 1))
	s.locks, s.waited = make(map[lockPart]*simLock), make(map[int32]tracefs.Time)
	s.free = s.p.cpus
	s.events = make([]simEvent, s.p.events)
	for i := range s.events {
		s.events[i].waiter = -1
	}
	s.tasks = make([]task, len(s.p.threads))
	for i := range s.tasks {
		s.tasks[i] = task{ops: s.p.threads[i], parts: make(map[int32]int)}
		s.advance(int32(i))
	}
	for s.dispatch(); len(s.queue) > 0 && s.steps < maxSteps; s.dispatch() {
		w := heap.Pop(&s.queue).(wakeup)
		s.now = w.at
		t := &s.tasks[w.task]
		if t.onCPU {
			t.onCPU = false
			s.free++
			if t.left -= w.run; t.left > 0 {
				s.ready = append(s.ready, w.task)
				continue
			}
			t.pc++
		}
		s.advance(w.task)
	}
	return s.now
}

// done reports whether a replay came to its end. Holds that the trace does not have can
// make it hang: threads then take locks in another order than they did.
func (s *sim) done() bool {
	return !slices.ContainsFunc(s.tasks, func(t task) bool { return t.pc < len(t.ops) })
}

// later lets a task go on after a time.
func (s *sim) later(i int32, d, run tracefs.Time) {
	s.seq++
	heap.Push(&s.queue, wakeup{s.now + d, s.seq, i, run})
}

// dispatch gives free CPUs to tasks that want one.
func (s *sim) dispatch() {
	for s.free > 0 && len(s.ready) > 0 {
		i := s.ready[0]
		s.ready = s.ready[1:]
		t := &s.tasks[i]
		s.free--
		t.onCPU = true
		run := t.left
		if len(s.ready) > 0 {
			run = min(run, quantum)
		}
		run = min(run, 4*quantum)
		s.later(i, run, run)
	}
}

// advance does a task's operations until one takes time.
func (s *sim) advance(i int32) {
	t := &s.tasks[i]
	for t.pc < len(t.ops) {
		s.steps++
		o := s.op(t)
		switch o.kind {
		case opCompute:
			if t.left = o.time; t.left > 0 {
				s.ready = append(s.ready, i)
				return
			}
		case opDelay:
			t.pc++
			if o.time > 0 {
				s.later(i, o.time, 0)
				return
			}
			continue
		case opAcquire:
			if !s.acquire(i, t, &o) {
				return
			}
		case opRelease:
			s.release(t, &o)
		case opAwait:
			if !s.await(i, t, &o) {
				return
			}
		case opSignal:
			s.signal(o.arg)
		}
		t.pc++
	}
}

// op returns the operation that a task is at, as it is with the change.
func (s *sim) op(t *task) op {
	o := t.ops[t.pc]
	if s.change != nil {
		s.change(&o)
	}
	return o
}

// acquire takes a lock. It reports false if the task has to wait.
func (s *sim) acquire(i int32, t *task, o *op) bool {
	if s.removed[o.arg] {
		return true
	}
	part, ok := t.parts[o.arg]
	if !ok {
		if n := s.shards[o.arg]; n > 1 {
			part = s.rand.IntN(n)
		}
		t.parts[o.arg] = part
	}
	l := s.lock(lockPart{o.arg, part})
	if l.owner >= 0 && l.owner != i {
		if !t.waited {
			t.waited, t.since = true, s.now
			l.queue = append(l.queue, i)
		} else {
			l.queue = append([]int32{i}, l.queue...)
		}
		return false
	}
	l.owner = i
	if t.waited {
		s.waited[o.arg] += s.now - t.since
		t.waited = false
		if s.policy == fifo && o.time > 0 {
			t.pc++
			s.later(i, o.time, 0)
			return false
		}
	}
	return true
}

func (s *sim) lock(at lockPart) *simLock {
	l := s.locks[at]
	if l == nil {
		l = &simLock{owner: -1}
		s.locks[at] = l
	}
	return l
}

// release releases a lock, and wakes the thread that has waited longest.
func (s *sim) release(t *task, o *op) {
	part, ok := t.parts[o.arg]
	if !ok {
		return
	}
	delete(t.parts, o.arg)
	l := s.lock(lockPart{o.arg, part})
	l.owner = -1
	if len(l.queue) == 0 {
		return
	}
	next := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	if s.policy == fifo {
		l.owner = next
		s.later(next, 0, 0)
		return
	}
	n := &s.tasks[next]
	s.later(next, s.op(n).time, 0)
}

func (s *sim) await(i int32, t *task, o *op) bool {
	e := &s.events[o.arg]
	if e.done {
		return true
	}
	e.waiter = i
	return false
}

func (s *sim) signal(n int32) {
	e := &s.events[n]
	if e.done = true; e.waiter >= 0 {
		t := &s.tasks[e.waiter]
		late := s.op(t).time
		t.pc++
		s.later(e.waiter, late, 0)
		e.waiter = -1
	}
}
