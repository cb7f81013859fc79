package perfdata

import "math"

// tasks are the names of threads as they are when a record is printed. It implements
// binary.Names.
type tasks struct{ comms map[int32]string }

// maxTasks bounds the threads and processes that are known, as many as Debian's kernels
// let there be (PID_MAX_LIMIT in include/linux/threads.h).
const maxTasks = 4 << 20

func newTasks() tasks { return tasks{make(map[int32]string)} }

// called notes the name of a thread from now on.
func (t *tasks) called(tid int32, comm string) {
	const commLen = 15
	if len(t.comms) >= maxTasks {
		clear(t.comms)
	}
	t.comms[tid] = comm[:min(len(comm), commLen)]
}

// forked notes that a thread has begun, with the name of the one that made it.
func (t *tasks) forked(parent, child int32) {
	if comm, ok := t.comms[parent]; ok {
		t.called(child, comm)
	} else {
		delete(t.comms, child)
	}
}

// Comm implements binary.Names. The printer is told of changes, so the answer holds until
// then.
func (t *tasks) Comm(tid int32, _ uint64) (comm string, until uint64, ok bool) {
	comm, ok = t.comms[tid]
	return comm, math.MaxUint64, ok
}
