package wait

import (
	"ustack/filemap"
	"ustack/tracefs"
)

// inCall is what the trace shows of the system call that a thread is in.
//
// Invariants:
//   - inside and seen are what the last record shows, of time at.
//   - fault is not before at.
type inCall struct {
	id     callID // if inside
	at     tracefs.Time
	seen   bool
	inside bool
	stack  int32        // with which it was entered, if ustack has unwound it, else none
	wide   bool         // its arguments have been wider than 32 bits, since it ran another program
	fault  tracefs.Time // the last page fault since then, 0 for none
	// pairs is how many entries had their return, breaks how many did not although
	// nothing was lost.
	pairs, breaks int32
	losses        int64 // as of at
}

// waker is what wakes a thread: another one by its number, or one of the numbers below.
type waker struct {
	tid   int32
	stack int32 // of package stackset
}

// Wakers that are no thread.
const (
	unknownWaker = 0
	interrupt    = -1
)

// off is a wait.
type off struct {
	from  tracefs.Time // the thread left its CPU
	woken tracefs.Time // 0 if the trace does not show it
	on    tracefs.Time // it was on a CPU again, 0 if the trace does not show when
	// wokenAt is when it was woken before from, 0 if it was not: it is so only if nothing
	// was lost until it ran.
	wokenAt tracefs.Time
	proof   tracefs.Time // of the call: nothing must be lost since
	id      callID
	state   byte
	waker   waker
	stack   int32
	tid     int32
	early   bool  // it had been woken before, too, while it went off its CPU, unless that was for nothing
	doubt   bool  // it ended unseen before the thread's next record, at woken at the latest
	losses  int64 // as of from
}

// end returns when its blocked part ended.
func (w *off) end() tracefs.Time {
	if w.woken != 0 {
		return w.woken
	}
	return w.on
}

// thread is the state of one thread.
//
// Invariants:
//   - It does not wait, waits (blocked), has been woken (ready), or runs after a wait that
//     is not settled (done): at most one of the three is set.
type thread struct {
	tid  int32
	comm string
	call inCall
	wait off

	blocked, ready, done bool
	seen                 bool // it has a record of its own, or was switched to
	calls                bool // it has made a system call; stays set for later threads of the number
	// before is the time of a wait that began before the trace, if there was one (began).
	before tracefs.Time
	began  bool
	// early is a wakeup while it seemed to run: it may have been on its way off the CPU.
	early   waker
	earlyAt tracefs.Time
}

// threads are all threads by number.
type threads struct {
	all    map[int32]*thread
	recent [recentThreads]*thread
	most   int
	forgot int64 // threads that there was no room for
	comms  filemap.Names
}

// recentThreads is how many of the last lookups are kept.
const recentThreads = 256

// of returns a thread, nil for idle. If there are too many, the ones that do not wait are
// forgotten, or all.
func (ts *threads) of(tid int32) *thread {
	if tid <= 0 {
		return nil
	}
	slot := &ts.recent[uint32(tid)%recentThreads]
	if *slot != nil && (*slot).tid == tid {
		return *slot
	}
	th := ts.all[tid]
	if th == nil {
		if len(ts.all) >= ts.most {
			ts.forget()
		}
		th = &thread{tid: tid}
		ts.all[tid] = th
	}
	*slot = th
	return th
}

// forget makes room for half as many threads.
func (ts *threads) forget() {
	clear(ts.recent[:])
	for tid, th := range ts.all {
		if !th.blocked && !th.ready && !th.done {
			delete(ts.all, tid)
			ts.forgot++
		}
	}
	if len(ts.all) > ts.most/2 {
		ts.forgot += int64(len(ts.all))
		clear(ts.all)
	}
}

// callsSeen reports whether the trace has a system call of a thread.
func (ts *threads) callsSeen(tid int32) bool {
	th := ts.all[tid]
	return th != nil && th.calls
}

// commOf returns the name of a thread, "" if unknown.
func (ts *threads) commOf(tid int32) string {
	if th := ts.all[tid]; th != nil {
		return th.comm
	}
	return ""
}

// named notes the name of a thread.
func (ts *threads) named(th *thread, comm []byte) {
	if string(comm) != th.comm && string(comm) != tracefs.CommUnknown && len(comm) > 0 {
		th.comm = ts.comms.Intern(comm)
	}
}
