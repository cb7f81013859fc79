package perfdata

import (
	"math"
	"slices"
	"sort"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
)

// spaces number what processes have mapped, by time: the number of a process is the same at
// two times only if nothing that it has mapped can have changed between them. They are made
// of all records of the file before the first sample is printed, as a record of a change can
// come in the file after samples of later times.
//
// Invariant: once sorted, the times of each list are in order, without double ones.
type spaces struct {
	any   []uint64           // from these times on any process may have changed
	byPID map[int32][]uint64 // when a process has changed
	count int                // of all times
	// most is maxChanges, but in tests. With more, there are no numbers.
	most int
	// recent are the numbers that were looked up last.
	recent [64]spaceOf
}

// spaceOf is the number of a process from one time until before another one; 0: none is here.
type spaceOf struct {
	pid      int32
	from, to uint64
	space    uint64
}

// maxChanges bounds the memory for the times.
const maxChanges = 8 << 20

func newSpaces() *spaces { return &spaces{byPID: make(map[int32][]uint64), most: maxChanges} }

// note takes a record about mappings, names, threads or losses.
func (s *spaces) note(r *perf.Record) {
	switch {
	case r.Type == unix.PERF_RECORD_LOST:
		s.all(uint64(r.LostFrom))
		s.all(uint64(r.Time))
	case r.Type == unix.PERF_RECORD_LOST_SAMPLES:
		s.all(uint64(r.Time))
	case r.Type != unix.PERF_RECORD_COMM || r.Exec():
		s.changed(int32(r.PID), uint64(r.Time))
	}
}

// changed notes a change of a process.
func (s *spaces) changed(pid int32, t uint64) {
	if list := s.byPID[pid]; s.room() && (len(list) == 0 || list[len(list)-1] != t) {
		s.byPID[pid] = append(list, t)
		s.count++
	}
}

// all notes that any process may have changed.
func (s *spaces) all(t uint64) {
	if s.room() {
		s.any = append(s.any, t)
		s.count++
	}
}

// room reports whether one more time can be noted.
func (s *spaces) room() bool {
	if s.count == s.most {
		s.count, s.any, s.byPID = s.most+1, nil, nil
	}
	return s.count < s.most
}

// sort ends the notes.
func (s *spaces) sort() {
	s.any = inOrder(s.any)
	for pid, list := range s.byPID {
		s.byPID[pid] = inOrder(list)
	}
}

func inOrder(list []uint64) []uint64 {
	slices.Sort(list)
	return slices.Compact(list)
}

// of returns the number of a process at a time, 0 if there are none.
func (s *spaces) of(pid int32, t uint64) uint64 {
	slot := &s.recent[uint32(pid)%uint32(len(s.recent))]
	if slot.space == 0 || slot.pid != pid || t < slot.from || t >= slot.to {
		if s.count > s.most {
			return 0
		}
		*slot = spaceOf{pid: pid, to: math.MaxUint64, space: 1}
		slot.narrow(s.any, t)
		slot.narrow(s.byPID[pid], t)
	}
	return slot.space
}

// narrow takes the changes of a list until t into the number. Both lists of a process only
// have more of them later, so two equal sums are of the same changes.
func (o *spaceOf) narrow(changes []uint64, t uint64) {
	n := sort.Search(len(changes), func(i int) bool { return changes[i] > t })
	o.space += uint64(n)
	if n > 0 {
		o.from = max(o.from, changes[n-1])
	}
	if n < len(changes) {
		o.to = min(o.to, changes[n])
	}
}
