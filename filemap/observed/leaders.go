package observed

import (
	"slices"

	"ustack/tracefs"
)

// leaders are the names that the first threads of processes had, by sched_switch. A
// process whose first thread has a name that the dump does not have is another one, or
// has executed another program: its other threads, too, which can have any name.
type leaders struct {
	names map[int32][]naming
	n     int
	full  bool
}

// naming is a name, and when it was first and last seen.
type naming struct {
	first, last tracefs.Time
	comm        string
}

// maxNamings bounds the names that are kept.
const maxNamings = 1 << 17

// note takes the name that the first thread of a process had at a time.
func (l *leaders) note(pid int32, comm string, t tracefs.Time) {
	list := l.names[pid]
	n := len(list)
	switch {
	case l.full || n > 0 && t < list[n-1].last:
		return
	case n > 0 && list[n-1].comm == comm:
		list[n-1].last = t
		return
	case l.n == maxNamings:
		l.full = true // what comes later is unknown
		return
	}
	l.n++
	l.names[pid] = append(list, naming{t, t, comm})
}

// at are the names that the first thread of a process can have had at a time, none if that
// is unknown: it has one until it is seen with another one.
func (l *leaders) at(pid int32, t tracefs.Time) []naming {
	list := l.names[pid]
	i, _ := slices.BinarySearchFunc(list, t, func(n naming, t tracefs.Time) int {
		if n.last < t {
			return -1
		}
		return 1
	})
	switch {
	case i == len(list) || i == 0 && t < list[0].first:
		return nil
	case t < list[i].first:
		return list[i-1 : i+1]
	}
	return list[i : i+1]
}

// ofLeader checks a moment against the names that the process's first thread can have had:
// if it had none of these, the dump is about another program.
func (m moment) ofLeader(names []naming) moment {
	named := func(v version) bool {
		return slices.ContainsFunc(names, func(n naming) bool { return v.isNamed([]byte(n.comm)) })
	}
	if len(names) > 0 && !slices.ContainsFunc(m.versions, named) {
		m.covered, m.whole, m.strange = false, false, true
	}
	return m
}
