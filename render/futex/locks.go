package futex

import (
	"errors"
	"fmt"
)

// locks knows the futexes of a trace, by where they are in a process or a file, and
// what has been added up of each: lock.go has what they are made of, kind.go and
// named.go what they are used as.
//
// Invariants:
//   - all has each root once, and no more roots than count, which is at most most.
//   - A root that is in a process, or in files, is found there under its key.
//   - The locks that others were folded into are roots, at no address.
//   - active of all roots is the number of waits and calls under way that count for them.
//   - A lock's numbers are not negative, and what is in doubt is a part of its time.
type locks struct {
	files   map[fileKey]*lock // shared futexes whose file is known
	others  [2]*lock          // locks that were too many, by section
	all     []*lock           // with locks that have been united or folded, till the next folding
	count   int               // how many there are
	born    int64             // how many there have been
	evicted bool              // locks have been folded into others
	most    int

	mappings Mappings // may be nil, as layouts
	layouts  Layouts
	stacks   *stacks
	tasks    *tasks
	losses   *losses
}

// check returns what of the invariants does not hold.
func (lk *locks) check() error {
	roots := make(map[*lock]bool)
	for _, l := range lk.all {
		if l.parent != nil {
			continue
		}
		if roots[l] {
			return fmt.Errorf("lock %#x is there twice", l.key.addr)
		}
		roots[l] = true
		if err := lk.checkLock(l); err != nil {
			return fmt.Errorf("lock %#x: %w", l.key.addr, err)
		}
	}
	if len(roots) != lk.count || lk.count > lk.most {
		return fmt.Errorf("%d locks, %d are counted, of %d", len(roots), lk.count, lk.most)
	}
	for _, l := range lk.others {
		if l.parent != nil || l.proc != nil || roots[l] {
			return errors.New("the lock that others became is one itself")
		}
		roots[l] = true
	}
	return lk.checkActive(roots)
}

func (lk *locks) checkLock(l *lock) error {
	switch {
	case l.proc == nil:
		return errors.New("no process")
	case l.proc.find().locks.get(l.key) == nil || l.proc.find().locks.get(l.key).find() != l:
		return errors.New("another lock is at its address")
	case l.file != (fileKey{}) && (lk.files[l.file] == nil || lk.files[l.file].find() != l):
		return errors.New("another lock is in its file")
	case l.time < 0 || l.doubt < 0 || l.doubt > l.time:
		return fmt.Errorf("%d of its time %d are in doubt", l.doubt, l.time)
	}
	for r, n := range l.results {
		if n < 0 {
			return fmt.Errorf("%d waits were %s", n, Result(r))
		}
	}
	return nil
}

// checkActive compares what locks say is under way with what the threads do.
func (lk *locks) checkActive(roots map[*lock]bool) error {
	active := make(map[*lock]int)
	for th := range lk.tasks.threads.all() {
		if w := th.wait; w != nil && w.counts {
			active[w.lock.find()]++
		}
		if k := th.wake; k != nil && k.lock != nil && !k.returned {
			active[k.lock.find()]++
		}
	}
	for l := range roots {
		if l.active != active[l] {
			return fmt.Errorf("%d waits and calls are under way at lock %#x, which counts %d", active[l], l.key.addr, l.active)
		}
	}
	return nil
}
