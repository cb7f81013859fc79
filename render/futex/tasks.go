package futex

import (
	"ustack/filemap"
	"ustack/tracefs"
)

// tasks knows the threads of a trace and which of them share memory: thread.go and
// process.go have what they are made of.
//
// Invariants:
//   - A thread is at its number in the table, once; the last lookups say the same.
//   - There are no more threads than most.
//   - A thread has a process, of which it is one of the listed threads if there is room.
//   - Only a thread in a call waits or wakes, and none does both. One that is dead does
//     neither; the next thread with its number may be in another call.
//   - A process in byLines is a root with that number. All threads that lines say are of its run
//     are in it.
//   - The root of a process in byTGID has that number; it lists no more threads than joined it.
type tasks struct {
	threads threadTable
	recent  [recentThreads]recentThread
	byTGID  map[int32]*process
	byLines map[int32]*process // what lines of a report have of a number last
	comms   filemap.Names
	// ownerComms are the names of owners that are not in the trace.
	ownerComms map[int32]string
	candidates []candidate // scratch
	lives      int64       // how many threads there have been
	looks      int64       // how often the locks of all processes were looked through
	forgot     int64       // threads
	buried     bool        // threads that had ended have been forgotten, and what loss hides of them
	most       int         // threads, and processes
	switches   bool        // the trace has sched_switch: asleep is right

	mappings Mappings // may be nil, as programs
	programs Programs
	losses   *losses

	// stop ends the call of a thread that is gone, release forgets it. united gives
	// the first process the state that others keep of the second.
	stop    func(th *thread, t tracefs.Time)
	release func(th *thread)
	united  func(p, q *process)
}

// letGo forgets a thread's call.
func (ts *tasks) letGo(th *thread) {
	ts.forgot++
	ts.release(th)
	th.in = false
}
