package futex

import (
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// calls puts entries into system calls and their returns together, and adds up the
// waits that end: pair.go has waits, release.go calls that wake others, count.go what is
// added up. It leads the parts below it; none of them knows it.
//
// Invariants:
//   - A thread waits or wakes only in a call of that kind, and its wait, or the one that
//     a signal broke off, is its own.
//   - A wait in a call is at a lock, unless it is one of futex_waitv; it counts there as
//     under way, and only there. One that was broken off counts nowhere.
//   - A wait that may be used again belongs to no thread.
//   - longest has the shortest one first, and no more than maxLongest of a section.
type calls struct {
	sys  *syscalls.Event // that is being taken
	line int64           // of the return that is being taken, 0 if calls are not kept

	entries   int64 // into the futex family
	exits     int64 // returns from it
	restarts  bool  // the trace has sys_restart_syscall
	stopped   bool  // a wait was broken off that it would take up
	moves     int64 // calls of futex_requeue
	before    Before
	waitv     Waitv
	unpaired  int64      // waits without a return
	broke     bool       // a call without its return was seen
	tail      int32      // thread whose wait began with the last event, 0 if none
	longest   [2]longest // by section
	waits     waitStacks
	releases  waitStacks
	freeWaits []*wait

	stacks  *stacks
	losses  *losses
	tasks   *tasks
	locks   *locks
	sites   *sites
	holders *holders
	splits  *splits
	held    *held
	log     *callLog
}

// event takes an event of any kind: a wait that began with the one before, of another
// thread, is not the last thing that a trace shows.
func (c *calls) event(tid int32) {
	if tid != c.tail {
		c.tail = 0
	}
}

// stop ends the call of a thread that is gone.
func (c *calls) stop(th *thread, t tracefs.Time) {
	c.stopPaused(th)
	if th.in {
		c.broken(th, t)
	}
}
