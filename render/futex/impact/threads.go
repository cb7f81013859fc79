package impact

import (
	"slices"

	"ustack/tracefs"
)

// state is what a thread does.
type state uint8

const (
	unknown state = iota
	running
	runnable
	blocked
)

// segment is what a thread does for a time. A blocked one has who ended it: 0 for an
// interrupt, -1 if that is unknown; and the lock that it waits for, -1 for none.
type segment struct {
	from, to tracefs.Time
	state    state
	waker    int32
	lock     int32
}

// packed is a segment as a thread keeps it, in 16 bytes: there may be a million. It ends where
// the next one begins. what is its lock, and in the lowest stateBits its state.
type packed struct {
	from  tracefs.Time
	waker int32
	what  int32
}

const stateBits = 2

func pack(from tracefs.Time, s state) packed {
	return packed{from: from, waker: -1, what: -1<<stateBits | int32(s)}
}

func (p *packed) state() state    { return state(p.what & (1<<stateBits - 1)) }
func (p *packed) become(s state)  { p.what = p.what&^(1<<stateBits-1) | int32(s) }
func (p *packed) waitFor(l int32) { p.what = l<<stateBits | int32(p.state()) }

// call is a thread's use of a lock.
type call struct {
	at   tracefs.Time
	lock int32
	kind kind // waits, returns or wakes
	ok   bool
}

// thread is what one thread has done, in order and without holes.
type thread struct {
	tid    int32
	list   []packed
	end    tracefs.Time // of the last one
	calls  []call
	holds  []hold
	in     int32 // the lock of its call, -1 for none
	ended  bool
	woken  bool // while it was on its way off the CPU
	by     int32
	parent int32 // that made it, 0 if unknown
}

// activity is what all threads have done.
type activity struct {
	threads    map[int32]*thread
	order      []*thread
	start, end tracefs.Time
	cpus       int
	switches   bool
}

// read makes the threads' segments of a log. isLock reports whether a lock is held by one
// thread at a time.
func read(l *Log, isLock func(int32) bool) *activity {
	a := &activity{threads: make(map[int32]*thread)}
	seen := make(map[int16]bool)
	for i := range l.list {
		e := &l.list[i]
		if i == 0 {
			a.start = e.at
		}
		if e.kind == switched && !seen[e.cpu] {
			seen[e.cpu], a.switches = true, true
			a.cpus++
		}
		a.take(e)
	}
	a.end = l.last
	for _, th := range a.order {
		to := a.end
		if len(l.list) > 0 && l.dropped > 0 {
			th.set(l.list[len(l.list)-1].at, unknown)
		}
		th.end = to
	}
	a.findHolds(isLock)
	return a
}

func (a *activity) thread(tid int32) *thread {
	if tid <= 0 {
		return nil
	}
	th := a.threads[tid]
	if th == nil {
		th = &thread{tid: tid, in: -1}
		a.threads[tid] = th
		a.order = append(a.order, th)
	}
	return th
}

// take takes one event.
func (a *activity) take(e *entry) {
	if e.kind == lost {
		for _, th := range a.order {
			th.forget(e.at)
		}
		return
	}
	if th := a.thread(e.a); th != nil {
		th.does(e)
	}
	other := a.thread(e.b)
	switch {
	case other == nil:
	case e.kind == switched:
		other.comes(e.at)
	case e.kind == waking:
		other.wakes(e.at, e.a)
	case e.kind == created:
		other.set(e.at, runnable)
		other.parent = e.a
	}
}

// does takes an event of the thread itself, which shows that it is on a CPU.
func (th *thread) does(e *entry) {
	if th.now() != running && e.kind != switched { // kernels leave out switches from idle
		th.set(e.at, running)
	}
	switch e.kind {
	case switched:
		th.leaves(e.at, e.state)
	case waits:
		th.in = e.b
		th.calls = append(th.calls, call{at: e.at, kind: waits, lock: e.b})
	case returns:
		th.calls = append(th.calls, call{at: e.at, kind: returns, lock: th.in, ok: e.b == 1})
		th.in = -1
	case wakes:
		th.calls = append(th.calls, call{at: e.at, kind: wakes, lock: e.b})
	}
}

func (th *thread) now() state {
	if n := len(th.list); n > 0 {
		return th.list[n-1].state()
	}
	return unknown
}

// segment returns what a thread does, by its index.
func (th *thread) segment(i int) segment {
	p, to := &th.list[i], th.end
	if i+1 < len(th.list) {
		to = th.list[i+1].from
	}
	return segment{from: p.from, to: to, state: p.state(), waker: p.waker, lock: p.what >> stateBits}
}

// set begins a segment.
func (th *thread) set(t tracefs.Time, s state) *packed {
	n := len(th.list)
	if n > 0 && th.list[n-1].from == t {
		n--
		th.list[n] = pack(t, s)
	} else {
		th.list = append(th.list, pack(t, s))
	}
	return &th.list[n]
}

func (th *thread) leaves(t tracefs.Time, state byte) {
	switch state {
	case 'R':
		th.set(t, runnable)
	case 'X', 'Z':
		th.set(t, unknown)
		th.ended = true
	default:
		th.set(t, blocked).waitFor(th.in)
		if th.woken { // on its way
			th.wakes(t, th.by)
		}
	}
	th.woken = false
}

func (th *thread) comes(t tracefs.Time) {
	if th.now() == blocked { // what woke it was not seen
		th.list[len(th.list)-1].become(unknown)
	}
	th.woken = false
	th.set(t, running)
}

func (th *thread) wakes(t tracefs.Time, waker int32) {
	switch th.now() {
	case blocked:
		th.list[len(th.list)-1].waker = waker
		if th.list[len(th.list)-1].from == t {
			return
		}
		th.set(t, runnable)
	case running:
		th.woken, th.by = true, waker
	}
}

// forget makes unknown what the thread does since its last event: records were lost.
func (th *thread) forget(t tracefs.Time) {
	if n := len(th.list); n > 0 {
		th.list[n-1].become(unknown)
		th.set(t, unknown)
	}
	th.in, th.woken = -1, false
	th.calls = append(th.calls, call{at: t, kind: lost, lock: -1})
}

// at returns the index of the segment that a time ends in, -1 if there is none.
func (th *thread) at(t tracefs.Time) int {
	n, _ := slices.BinarySearchFunc(th.list, t, func(s packed, t tracefs.Time) int {
		if s.from < t {
			return -1
		}
		return 1
	})
	return n - 1
}
