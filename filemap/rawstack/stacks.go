// Package rawstack keeps the raw addresses of user stacks over time: what the
// kernel found of a thread's stack at each event, whatever it says of the same
// stack later.
package rawstack

import (
	"sort"
	"sync"

	"ustack/tracefs"
)

// Depth is how many addresses a stack has at most (FTRACE_STACK_ENTRIES).
const Depth = 8

// Stack is the stack of a thread at a time: addresses, innermost first. It is
// never changed.
type Stack struct {
	Time  tracefs.Time
	Addrs []uint64
}

// Stacks keeps the stacks of all threads. All methods may be called by any
// goroutine.
type Stacks struct {
	mu    sync.RWMutex
	most  int
	byTID map[int][]Stack // in order of time
	order []int           // threads, in the order in which their stacks came
	known map[[Depth]uint64][]uint64
	gaps  []gap // in order
	count Counts
	// expired is up to when stacks were forgotten last.
	expired tracefs.Time
}

// Counts is what became of the stacks.
type Counts struct {
	Kept    int64 // stacks that came
	Dropped int64 // for want of room, before they were looked up
	Gaps    int64 // times of which stacks are missing
	Lost    int64 // records that are known to be lost then
}

// gap is a time of which stacks are missing.
type gap struct{ from, to tracefs.Time }

const (
	// MaxStacks bounds the stacks that are kept while time goes on.
	MaxStacks = 1 << 18
	// maxKnown bounds the different stacks that share their memory.
	maxKnown = 1 << 16
	maxGaps  = 1 << 10
	// maxThreads bounds the threads of which the last stack is kept, however
	// old it is.
	maxThreads = 1 << 15
)

// New returns no stacks, of which at most so many are kept; 0 is for all.
func New(most int) *Stacks {
	return &Stacks{most: most, byTID: make(map[int][]Stack), known: make(map[[Depth]uint64][]uint64)}
}

// Add adds the stack of a thread. A stack that comes late is put in its place.
func (s *Stacks) Add(tid int, t tracefs.Time, addrs []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Kept++
	list := s.byTID[tid]
	i := len(list)
	for i > 0 && list[i-1].Time > t {
		i--
	}
	list = append(list, Stack{})
	copy(list[i+1:], list[i:])
	list[i] = Stack{Time: t, Addrs: s.intern(addrs)}
	s.byTID[tid] = list
	if s.most > 0 {
		s.order = append(s.order, tid)
		s.bound()
	}
}

// intern returns the one copy of a stack.
func (s *Stacks) intern(addrs []uint64) []uint64 {
	var key [Depth]uint64
	n := copy(key[:], addrs)
	if known, ok := s.known[key]; ok {
		return known
	}
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	own := make([]uint64, n)
	copy(own, addrs)
	s.known[key] = own
	return own
}

// bound drops the stacks that came first, if there are too many.
func (s *Stacks) bound() {
	if len(s.order) <= s.most {
		return
	}
	old := s.order[:len(s.order)-s.most/2]
	for _, tid := range old {
		list := s.byTID[tid]
		if len(list) == 0 {
			continue
		}
		s.count.Dropped++
		s.drop(tid, list, 1)
	}
	s.order = append(s.order[:0], s.order[len(old):]...)
}

// drop drops the first stacks of a thread.
func (s *Stacks) drop(tid int, list []Stack, n int) {
	switch {
	case n == 0:
	case n == len(list):
		delete(s.byTID, tid)
	case n > cap(list)/2: // give the room back
		s.byTID[tid] = append([]Stack(nil), list[n:]...)
	default:
		clear(list[:n])
		s.byTID[tid] = list[n:]
	}
}

// Lose notes that stacks are missing between two times, of so many records, 0
// if unknown.
func (s *Stacks) Lose(records uint64, from, to tracefs.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Gaps++
	s.count.Lost += int64(records)
	for n := len(s.gaps); n > 0 && s.gaps[n-1].to >= from; n = len(s.gaps) {
		from, to = min(from, s.gaps[n-1].from), max(to, s.gaps[n-1].to)
		s.gaps = s.gaps[:n-1]
	}
	if len(s.gaps) == maxGaps {
		s.gaps[1].from = s.gaps[0].from
		s.gaps = append(s.gaps[:0], s.gaps[1:]...)
	}
	s.gaps = append(s.gaps, gap{from, to})
}

// Missing reports whether stacks are missing at any time between two.
func (s *Stacks) Missing(from, to tracefs.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := sort.Search(len(s.gaps), func(i int) bool { return s.gaps[i].to >= from })
	return i < len(s.gaps) && s.gaps[i].from <= to
}

// Between appends the stacks of a thread from one time to another, at most so
// many, the last one first.
func (s *Stacks) Between(out []Stack, tid int, from, to tracefs.Time, most int) []Stack {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.byTID[tid]
	i := sort.Search(len(list), func(i int) bool { return list[i].Time > to })
	for ; i > 0 && list[i-1].Time >= from && most > 0; i, most = i-1, most-1 {
		out = append(out, list[i-1])
	}
	return out
}

// Reached sets the time up to which stacks have been looked up. It drops stacks
// that are much older.
func (s *Stacks) Reached(t tracefs.Time) {
	const (
		keep  = tracefs.Time(1e9) // more than CPUs differ
		often = keep / 4
	)
	s.mu.Lock()
	due := t-keep-s.expired >= often
	if due {
		s.expired = t - keep
	}
	s.mu.Unlock()
	if due {
		s.Expire(t - keep)
	}
}

// Expire forgets stacks of before a time, but for the last one of each thread:
// it may still be in the kernel.
func (s *Stacks) Expire(before tracefs.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.byTID) > maxThreads
	n := 0
	for tid, list := range s.byTID {
		old := sort.Search(len(list), func(i int) bool { return list[i].Time >= before })
		if !all {
			old = min(old, len(list)-1)
		}
		s.drop(tid, list, old)
		n += len(list) - old
	}
	// Which thread came when does not matter for what is left, but how many.
	if s.most > 0 {
		s.order = s.order[:0]
		for tid, list := range s.byTID {
			for range list {
				s.order = append(s.order, tid)
			}
		}
	}
	old := 0
	for old < len(s.gaps) && s.gaps[old].to < before {
		old++
	}
	s.gaps = append(s.gaps[:0], s.gaps[old:]...)
}

// Counts returns what became of the stacks so far.
func (s *Stacks) Counts() Counts {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count
}
