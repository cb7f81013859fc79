package futex

import "ustack/tracefs"

// locks knows the futexes of a trace, by where they are in a process or a file, and
// what has been added up of each: lock.go has what they are made of, kind.go and
// named.go what they are used as.
//
// Invariants:
//   - all has each root once, and no more roots than count, which is at most most.
//   - A root that is in a process, or in files, is found there under its key, until
//     another one is at its place (gone).
//   - The locks that others were folded into are roots, at no address.
//   - active of all roots is the number of waits and calls under way that count for them.
//   - A lock's numbers are not negative, and its doubtful time is a part of its
//     time.
type locks struct {
	files   map[fileKey]*lock        // shared futexes whose file is known
	asked   map[placing]tracefs.Time // when the file there was last asked for, of shared ones
	others  [2]*lock                 // locks that were too many, by section
	all     []*lock                  // with united or folded locks, until the next folding
	count   int                      // how many there are
	born    int64                    // how many there have been
	evicted bool                     // locks have been folded into others
	most    int

	mappings Mappings // may be nil, as layouts
	layouts  Layouts
	placings *placings         // where futexes are, without layouts
	byLines  bool              // by lines of a report
	goHeap   func(uint64) bool // may be nil
	stacks   *stacks
	tasks    *tasks
	losses   *losses
}
