package space

import (
	"maps"
	"sync"
	"sync/atomic"

	"ustack/tracefs"
)

const shardBits = 8

// Spaces are the address spaces of all processes. All methods may be called at any
// time from any goroutine; lookups never block.
type Spaces struct {
	shards  [1 << shardBits]shard
	files   files
	budget  budget
	compats compats
	most    int // versions of one PID that are kept
}

// shard is the part of the processes that a change copies.
type shard struct {
	mu     sync.Mutex // held by writers
	spaces atomic.Pointer[map[int]*Space]
}

// maxVersions bounds the versions of one PID that are kept while time goes on:
// what is not expired by then has come too fast.
const maxVersions = 1 << 13

// New returns spaces without any process, for what happens now.
func New() *Spaces { return NewOf(maxVersions) }

// NewOf returns spaces without any process that keep so many versions of each PID,
// for a long history that is noted at once.
func NewOf(versions int) *Spaces {
	s := &Spaces{files: files{known: make(map[File]*File)}, most: versions}
	s.budget.limit = MaxBytes
	return s
}

func (s *Spaces) shard(pid int) *shard { return &s.shards[uint(pid)%(1<<shardBits)] }

func (sh *shard) load() map[int]*Space {
	if m := sh.spaces.Load(); m != nil {
		return *m
	}
	return nil
}

// Space returns the history of a PID as of now, nil if there is none. It does
// not change.
func (s *Spaces) Space(pid int) *Space { return s.shard(pid).load()[pid] }

// Lookup finds what an address of a process was at a time, by what is known
// now. See Space.Lookup.
func (s *Spaces) Lookup(pid int, addr uint64, t tracefs.Time) (Place, bool) {
	return s.Space(pid).Lookup(addr, t)
}

// Snapshot is all that was known at a moment.
type Snapshot struct {
	shards [1 << shardBits]map[int]*Space
}

// Snapshot keeps the present state. It costs a pointer for each shard, however
// many processes there are.
func (s *Spaces) Snapshot() *Snapshot {
	var snap Snapshot
	for i := range s.shards {
		snap.shards[i] = s.shards[i].load()
	}
	return &snap
}

// Space returns the history of a PID, nil if there is none.
func (s *Snapshot) Space(pid int) *Space { return s.shards[uint(pid)%(1<<shardBits)][pid] }

// Lookup finds what an address of a process was at a time. See Space.Lookup.
func (s *Snapshot) Lookup(pid int, addr uint64, t tracefs.Time) (Place, bool) {
	return s.Space(pid).Lookup(addr, t)
}

// Each calls fn with all spaces, in no order, until it returns false.
func (s *Snapshot) Each(fn func(*Space) bool) {
	for _, spaces := range s.shards {
		for _, sp := range spaces {
			if !fn(sp) {
				return
			}
		}
	}
}

// update replaces the space of a PID by what change makes of it: nil takes it
// away, the same one leaves all as it is.
func (s *Spaces) update(pid int, change func(old *Space) *Space) (changed bool) {
	old, next := s.change(pid, change)
	if next == old {
		return false
	}
	s.spend(old, next)
	return true
}

func (s *Spaces) change(pid int, change func(old *Space) *Space) (old, next *Space) {
	sh := s.shard(pid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	spaces := sh.load()
	old = spaces[pid]
	if next = change(old); next == old {
		return old, old
	}
	if next != nil {
		next.shed()
		next = next.bounded(s.most)
	}
	sh.replace(spaces, pid, next)
	return old, next
}

// replace publishes a copy of a shard's spaces in which one is another.
func (sh *shard) replace(spaces map[int]*Space, pid int, next *Space) {
	spaces = maps.Clone(spaces)
	if spaces == nil {
		spaces = make(map[int]*Space)
	}
	if next == nil {
		delete(spaces, pid)
	} else {
		spaces[pid] = next
	}
	sh.spaces.Store(&spaces)
}

// Len is of how many PIDs anything is known.
func (s *Spaces) Len() int {
	n := 0
	for i := range s.shards {
		n += len(s.shards[i].load())
	}
	return n
}

// Expire forgets what ended before a time, and the files that nothing refers
// to any more.
func (s *Spaces) Expire(before tracefs.Time) {
	for i := range s.shards {
		s.shards[i].expire(before)
	}
	if s.files.due() {
		sweepFiles(s)
	}
}

func (sh *shard) expire(before tracefs.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for pid, sp := range sh.load() {
		old := 0
		for old < len(sp.versions) && sp.versions[old].To <= before {
			old++
		}
		switch {
		case old == len(sp.versions):
			sh.replace(sh.load(), pid, nil)
		case old == 0:
			if next := sp.since(before); next != sp {
				sh.replace(sh.load(), pid, next)
			}
		default:
			sh.replace(sh.load(), pid, &Space{PID: pid, versions: append([]Version(nil), sp.versions[old:]...),
				changed: sp.changed, loads: sp.loads.since(before), forked: sp.ForkedOf(sp.versions[old].From), first: programOf(sp, sp.versions[old].From), gone: sp.gone})
		}
	}
}
