package futex

import (
	"cmp"
	"slices"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/syscalls"
)

// thread is what is known of one thread.
type thread struct {
	// What says whether it may be forgotten is together: all threads are looked
	// through for that, and few are in the cache of the processor.
	tid  int32
	in   bool // in the system call that call is
	dead bool
	last tracefs.Time // of its system call records, as first
	// wait is what it waits for, in this call, or in one that a signal broke
	// off and that may go on (paused). wake is its call that wakes others.
	paused *wait
	wait   *wait
	wake   *wake
	got    *lock // the last that it holds

	life int64 // its number among all that there have been, of the same tid too
	comm string
	proc *process

	call   syscalls.Call
	futex  syscalls.Futex
	since  tracefs.Time
	cookie uint64
	stack  int32

	first    tracefs.Time
	lastFree bool // last is a return
	asleep   bool // off its CPU, not ready to run
	diedAt   tracefs.Time
	hidden   tracefs.Time // what loss can hide
	moved    bool         // it, or who had its number before, was of another process
	holds    []*lock      // got by waiting, and not released since
	gotAt    tracefs.Time
	alone    *newcomer // room for a process of its own, nil if there is none
}

// recentThread is what the table of threads says of a number.
type recentThread struct {
	tid int32
	set bool
	th  *thread // nil if there is none
}

// recentThreads is how many of the last lookups are kept. Most are of few threads,
// and of threads that never call futex.
const recentThreads = 512

// threadOf is a thread's state, nil if there is none.
func (a *Analysis) threadOf(tid int32) *thread {
	slot := &a.recent[uint32(tid)%recentThreads]
	if slot.tid != tid || !slot.set {
		*slot = recentThread{tid, true, a.threads.get(tid)}
	}
	return slot.th
}

// thread returns a thread's state; nil if there are too many.
func (a *Analysis) thread(tid int32) *thread {
	if th := a.threadOf(tid); th != nil {
		if th.dead {
			a.reborn(th)
		}
		return th
	}
	if a.threads.count() >= a.opt.Threads {
		a.forgetThreads()
	}
	n := new(newcomer)
	th := &n.thread
	*th = thread{tid: tid, life: a.lives, first: -1, stack: noStack, alone: n}
	a.lives++
	a.threads.put(th)
	a.recent[uint32(tid)%recentThreads] = recentThread{tid, true, th}
	a.adopt(th)
	th.alone = nil
	return th
}

// newcomer is a new thread with what it needs if its process is unknown, in one
// piece of memory.
type newcomer struct {
	thread
	process process
	tids    [1]int32
}

// reborn makes a new thread of a number that is used again.
func (a *Analysis) reborn(th *thread) {
	*th = thread{tid: th.tid, life: a.lives, first: th.first, last: th.last, lastFree: th.lastFree, hidden: th.hidden, moved: true, stack: noStack}
	a.lives++
	a.adopt(th)
}

// switched learns whether the thread sleeps, and if need be its name, when it
// goes off a CPU.
func (th *thread) switched(e *sched.Event, h *resolve.Held, a *Analysis) {
	th.asleep = e.State != 'R'
	if th.comm != "" {
		return
	}
	if comm := e.PrevComm(); len(comm) > 0 {
		th.comm = a.comms.Intern(h.Plain(comm))
		a.commOf(th)
	}
}

// named learns the thread's name from a header.
func (th *thread) named(comm []byte, a *Analysis) {
	if string(comm) != th.comm && string(comm) != tracefs.CommUnknown && len(comm) > 0 {
		th.comm = a.comms.Intern(comm)
	}
}

// ended notes that a thread is gone.
func (a *Analysis) ended(th *thread, t tracefs.Time) {
	a.stopPaused(th)
	if th.in {
		a.broken(th, t)
	}
	th.dead, th.diedAt = true, t
	th.proc.find().died(th)
}

// candidate is a thread that may be forgotten, with what that depends on: all
// of them are looked through, and few are in the cache of the processor.
type candidate struct {
	th   *thread
	last tracefs.Time
	tid  int32
	at   int32 // in the list of the table
	dead bool
}

// compare orders candidates by which is to go first.
func (x *candidate) compare(y *candidate) int {
	if x.dead != y.dead {
		if x.dead {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(x.last, y.last), cmp.Compare(x.tid, y.tid))
}

// forgetThreads makes room: exited threads go first, then the ones that were silent
// for longest. Threads in a call go only if there are hardly any others.
func (a *Analysis) forgetThreads() {
	defer clear(a.recent[:])
	all := a.candidates[:0]
	for i, n := range a.threads.list {
		if th := n.th; !th.in && th.paused == nil {
			all = append(all, candidate{th, th.last, n.tid, int32(i), th.dead})
		}
	}
	half := (len(all) + 1) / 2
	if hardlyAny(len(all), a.threads.count()) {
		for i, n := range a.threads.list {
			if th := n.th; th.in || th.paused != nil {
				all = append(all, candidate{th, th.last, n.tid, int32(i), th.dead})
			}
		}
		half = (len(all) + 1) / 2
		slices.SortFunc(all, func(x, y candidate) int { return x.compare(&y) }) // what goes first counts first
	} else {
		first(all, half, func(x, y *candidate) bool { return x.compare(y) < 0 })
	}
	for i := range all[:half] {
		th := all[i].th
		if th.dead {
			a.buried = true
		} else {
			a.letGo(th)
		}
	}
	a.threads.forget(all[:half])
	clear(all)
	a.candidates = all
}

// hardlyAny reports whether so few of what is kept can go that each new one would
// soon have to look for room again: nearly all is in use, as in a hostile trace.
func hardlyAny(n, of int) bool { return n <= of/32 }

// letGo forgets what a thread does.
func (a *Analysis) letGo(th *thread) {
	a.forgot++
	a.stopPaused(th)
	if w := th.wait; w != nil {
		th.wait = nil
		a.leave(w)
	}
	if k := th.wake; k != nil {
		th.wake = nil
		k.woke = true // perhaps
		a.wakeReturned(k, k.claimed, a.losses.end)
		if k.lock != nil {
			k.lock.find().active--
		}
		a.unaware = true
	}
	th.in = false
}
