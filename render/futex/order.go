package futex

import (
	"ustack/tracefs"
)

// onPath is how long each lock is on the critical path of the trace, and how long that is.
type onPath struct {
	locks map[*lock]tracefs.Time
	whole tracefs.Time
}

// Where the order of the locks is by the critical path, that is known but for one part in
// mostUnknown of it, the first lock has leastOnPath percent of it, and clearlyOn times as much as
// the lock that is waited for most.
const (
	mostUnknown = 5
	leastOnPath = 10
	clearlyOn   = 2
)

// orderEntries is how long a trace is at most that has an order by the critical path without
// being asked for it, in entries of impact.Log.
const orderEntries = 1 << 18

// path finds the critical path if enough of it is known, nil otherwise.
func (a *Analysis) path() *onPath {
	if a.impact.log == nil && a.impact.whole == nil || a.losses.Gaps.Any() || a.losses.refused > 0 {
		return nil
	}
	if a.impact.whole == nil {
		a.impact.settle()
	}
	found, err := a.impact.find("", "")
	if err != nil || found.Unknown*mostUnknown > found.To-found.From {
		return nil
	}
	p := &onPath{locks: make(map[*lock]tracefs.Time), whole: found.To - found.From}
	for _, part := range found.Locks {
		if l := a.impact.locks.list[part.Lock]; l != nil {
			p.locks[l.find()] += part.Time
		}
	}
	return p
}

// of returns how long a row is on the path.
func (p *onPath) of(l *Lock) (sum tracefs.Time) {
	for _, part := range l.parts {
		sum += p.locks[part.find()]
	}
	return sum
}

// reorders returns the lock that is waited for most, if the path shows that another one costs
// more run time, else nil. It notes how long each is on it.
func (p *onPath) reorders(locks []*Lock) *Lock {
	if p == nil || len(locks) == 0 {
		return nil
	}
	first, loudest := locks[0], locks[0]
	for _, l := range locks {
		if l.OnPath = p.of(l); l.OnPath > first.OnPath {
			first = l
		}
		if l.Time+l.OpenTime > loudest.Time+loudest.OpenTime {
			loudest = l
		}
	}
	if first == loudest || first.OnPath*100 < p.whole*leastOnPath || first.OnPath < clearlyOn*loudest.OnPath {
		return nil
	}
	return loudest
}
