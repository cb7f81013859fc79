package futex

import (
	"errors"
	"fmt"
	"slices"

	"ustack/filemap"
	"ustack/tracefs"
)

// tasks knows the threads of a trace and which of them share memory: thread.go and
// process.go have what they are made of.
//
// Invariants:
//   - A thread is at its number in the table, once; the last lookups say the same.
//   - There are no more threads than most.
//   - A thread has a process; whoever it was united with has the same root.
//   - Only a thread in a call waits or wakes, and none does both. One that is dead does
//     nothing.
//   - A root of byTGID has that number; it has as many threads as joined it.
type tasks struct {
	threads threadTable
	recent  [recentThreads]recentThread
	byTGID  map[int32]*process
	comms   filemap.Names
	// ownerComms are the names of owners that the trace has nothing of.
	ownerComms map[int32]string
	candidates []candidate // scratch
	lives      int64       // how many threads there have been
	forgot     int64       // threads
	buried     bool        // threads that had ended have been forgotten, and what loss hides of them
	most       int         // threads, and processes
	switches   bool        // the trace has sched_switch: asleep is right

	mappings Mappings // may be nil, as programs
	programs Programs
	losses   *losses

	// stop ends what a thread does that is gone, release forgets it. united gives the
	// first process what others keep of the second.
	stop    func(th *thread, t tracefs.Time)
	release func(th *thread)
	united  func(p, q *process)
}

// letGo forgets what a thread does.
func (ts *tasks) letGo(th *thread) {
	ts.forgot++
	ts.release(th)
	th.in = false
}

// check returns what of the invariants does not hold.
func (ts *tasks) check() error {
	if n := ts.threads.count(); n > ts.most {
		return fmt.Errorf("%d threads of %d", n, ts.most)
	}
	for th := range ts.threads.all() {
		if err := ts.checkThread(th); err != nil {
			return fmt.Errorf("thread %d: %w", th.tid, err)
		}
	}
	for i := range ts.recent {
		if r := &ts.recent[i]; r.set && r.th != ts.threads.get(r.tid) {
			return fmt.Errorf("the last lookup of thread %d is not that of the table", r.tid)
		}
	}
	for tgid, p := range ts.byTGID {
		if root := p.find(); root.tgid != tgid || len(root.tids) > root.count || len(root.tids) > maxTIDs {
			return fmt.Errorf("process %d has number %d, %d threads, %v", tgid, root.tgid, root.count, root.tids)
		}
	}
	return nil
}

func (ts *tasks) checkThread(th *thread) error {
	switch {
	case ts.threads.get(th.tid) != th:
		return errors.New("another one has its number")
	case th.proc == nil:
		return errors.New("no process")
	case !th.in && (th.wait != nil || th.wake != nil):
		return errors.New("waits or wakes, and is in no call")
	case th.wait != nil && (th.wake != nil || th.paused != nil):
		return errors.New("does two things at once")
	case th.dead && (th.in || th.paused != nil):
		return errors.New("is dead and in a call")
	case th.hidden < 0:
		return fmt.Errorf("loss hides %d of it", th.hidden)
	}
	if p := th.proc.find(); len(p.tids) < maxTIDs && !slices.Contains(p.tids, th.tid) {
		return fmt.Errorf("its process has only %v", p.tids)
	}
	return nil
}
