package futex

import (
	"cmp"
	"slices"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/sorting"
	"ustack/tracefs/syscalls"
)

// thread is the state of one thread.
type thread struct {
	// The fields that decide whether it may be forgotten are together: all
	// threads are looked through for that, and few are in the processor's
	// cache.
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
	woken  *wake // the call that ended its last wait, until its next call of futex

	life int64 // its number among all that there have been, of the same tid too
	comm string
	proc *process

	call   syscalls.Call
	futex  syscalls.Futex
	since  tracefs.Time
	line   int64 // of its entry, 0 if calls are not kept
	cookie uint64
	stack  int32

	first    tracefs.Time
	lastFree bool // last is a return
	asleep   bool // off its CPU, not ready to run

	waitInLog bool // a wait of its is in impactLog, without its end
	diedAt    tracefs.Time
	hidden    tracefs.Time // what loss can hide
	moved     bool         // it, or an earlier thread with its number, was of another process
	holds     []*lock      // got by waiting, and not released since
	gotAt     tracefs.Time
	gotCall   tracefs.Time // when the call began from which it returned then
	took      []taken      // locks that it may own
	alone     *newcomer    // room for a new process, nil if there is none
}

// recentThread is the entry for a number in the table of threads.
type recentThread struct {
	tid int32
	set bool
	th  *thread // nil if there is none
}

// recentThreads is how many of the last lookups are kept. Most are of few threads,
// and of threads that never call futex.
const recentThreads = 512

// threadOf returns a thread's state, nil if there is none.
func (ts *tasks) threadOf(tid int32) *thread {
	slot := &ts.recent[uint32(tid)%recentThreads]
	if slot.tid != tid || !slot.set {
		*slot = recentThread{tid, true, ts.threads.get(tid)}
	}
	return slot.th
}

// thread returns a thread's state; nil if there are too many.
func (ts *tasks) thread(tid int32) *thread {
	if th := ts.threadOf(tid); th != nil {
		if th.dead {
			ts.reborn(th)
		}
		return th
	}
	if ts.threads.count() >= ts.most {
		ts.forgetThreads()
	}
	n := new(newcomer)
	th := &n.thread
	*th = thread{tid: tid, life: ts.lives, first: -1, stack: noStack, alone: n, took: n.took[:0]}
	ts.lives++
	ts.threads.put(th)
	ts.recent[uint32(tid)%recentThreads] = recentThread{tid, true, th}
	ts.adopt(th)
	th.alone = nil
	return th
}

// newcomer is a new thread with what it needs if its process is unknown, in one
// piece of memory.
type newcomer struct {
	thread
	process process
	tids    [1]int32
	took    [1]taken
}

// reborn makes a new thread of a number that is used again.
func (ts *tasks) reborn(th *thread) {
	*th = thread{tid: th.tid, life: ts.lives, first: th.first, last: th.last, lastFree: th.lastFree, hidden: th.hidden, moved: true, stack: noStack, took: th.took[:0]}
	ts.lives++
	ts.adopt(th)
}

// switched learns whether the thread sleeps, and if need be its name, when it
// goes off a CPU.
func (ts *tasks) switched(th *thread, e *sched.Event, h *resolve.Pending) {
	th.asleep = e.State != 'R'
	if th.comm != "" {
		return
	}
	if comm := e.PrevComm(); len(comm) > 0 {
		th.comm = ts.comms.Intern(h.Plain(comm))
		ts.commOf(th)
	}
}

// named learns the thread's name from a header.
func (ts *tasks) named(th *thread, comm []byte) {
	if string(comm) != th.comm && string(comm) != tracefs.CommUnknown && len(comm) > 0 {
		th.comm = ts.comms.Intern(comm)
	}
}

// ended notes that a thread is gone. It takes and releases no lock any more.
func (ts *tasks) ended(th *thread, t tracefs.Time) {
	ts.stop(th, t)
	th.dead, th.diedAt = true, t
	clear(th.took) // its room may be in the same piece of memory
	th.got, th.woken, th.holds, th.took = nil, nil, nil, nil
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
func (ts *tasks) forgetThreads() {
	defer clear(ts.recent[:])
	all := ts.candidates[:0]
	for i, n := range ts.threads.list {
		if th := n.th; !th.in && th.paused == nil {
			all = append(all, candidate{th, th.last, n.tid, int32(i), th.dead})
		}
	}
	half := (len(all) + 1) / 2
	if hardlyAny(len(all), ts.threads.count()) {
		for i, n := range ts.threads.list {
			if th := n.th; th.in || th.paused != nil {
				all = append(all, candidate{th, th.last, n.tid, int32(i), th.dead})
			}
		}
		half = (len(all) + 1) / 2
		sorting.Func(all, func(x, y candidate) int { return x.compare(&y) }) // what goes first counts first
	} else {
		first(all, half, func(x, y *candidate) bool { return x.compare(y) < 0 })
	}
	for i := range all[:half] {
		th := all[i].th
		if th.dead {
			ts.buried = true
		} else {
			ts.letGo(th)
		}
	}
	ts.threads.forget(all[:half])
	clear(all)
	ts.candidates = all
}

// hardlyAny reports whether so few of what is kept can go that each new one would
// soon have to look for room again: nearly all is in use, as in a hostile trace.
func hardlyAny(n, of int) bool { return n <= of/32 }

// inOrder returns the threads in the order of their numbers.
func (ts *tasks) inOrder() []*thread {
	return slices.SortedFunc(ts.threads.all(), func(x, y *thread) int { return cmp.Compare(x.tid, y.tid) })
}

// mayBeThread reports whether a value can be the number of a thread that
// another one has made: it is known, or was given out not long after.
func (ts *tasks) mayBeThread(val uint32, maker int32) bool {
	const near = 1 << 12
	if val > tracefs.MaxTID {
		return false
	}
	return ts.threadOf(int32(val)) != nil || int32(val) > maker && int32(val)-maker < near
}

// nameOwner notes the name of a thread that may not be in the trace.
func (ts *tasks) nameOwner(tid int32, comm string) {
	if th := ts.threads.get(tid); th != nil && th.comm != "" {
		return
	}
	if ts.ownerComms == nil || len(ts.ownerComms) >= ts.most {
		ts.ownerComms = make(map[int32]string)
	}
	ts.ownerComms[tid] = comm
}

// commOfTID returns the last name of a thread, "" if unknown.
func (ts *tasks) commOfTID(tid int32) string {
	if th := ts.threads.get(tid); th != nil && th.comm != "" {
		return th.comm
	}
	return ts.ownerComms[tid]
}
