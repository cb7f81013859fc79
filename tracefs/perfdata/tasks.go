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

// spaces number what processes have mapped: the number changes whenever that may have
// changed, and is never used again.
type spaces struct {
	last, floor uint64
	byPID       map[int32]uint64
	// recent are the processes that were looked up last: a map is slower.
	recent [64]spaceOf
}

type spaceOf struct {
	pid   int32
	space uint64 // 0: none is here
}

func (s *spaces) slot(pid int32) *spaceOf { return &s.recent[uint32(pid)%uint32(len(s.recent))] }

// changed notes a change of a process.
func (s *spaces) changed(pid int32) {
	if s.byPID == nil || len(s.byPID) >= maxTasks {
		s.byPID = make(map[int32]uint64)
		s.all()
	}
	s.last = max(s.last, s.floor) + 1
	s.byPID[pid] = s.last
	*s.slot(pid) = spaceOf{}
}

// all notes that any process may have changed.
func (s *spaces) all() {
	s.last = max(s.last, s.floor) + 1
	s.floor = s.last
	clear(s.byPID)
	clear(s.recent[:])
}

// of returns the number of a process.
func (s *spaces) of(pid int32) uint64 {
	slot := s.slot(pid)
	if slot.pid != pid || slot.space == 0 {
		*slot = spaceOf{pid, max(s.floor, s.byPID[pid])}
	}
	return slot.space
}
