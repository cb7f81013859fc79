package report

import (
	"errors"
	"fmt"

	"ustack/render/futex"
	"ustack/render/profile"
)

// Profile makes a profile of the waits for locks that slept and ended, by the
// stack of the waiter: how many there were, and how long they took. The labels
// are the lock and its process. A View with Top makes a report without all
// locks, and so a profile without all waits.
func Profile(r *futex.Report) *profile.Profile {
	return profileOf(r, noRow)
}

// Blame makes a profile of the same waits by the stacks that others waited for, as Go's
// mutex profile does: each owner's part of a wait is charged to the call by which that
// owner released the lock. Waits of which the trace does not have the release are one
// stack.
func Blame(r *futex.Report) *profile.Profile {
	return blameOf(r, noRow)
}

// blameOf is Blame with the rows of the locks, 0 for none.
func blameOf(r *futex.Report, row func(*futex.Lock) int32) *profile.Profile {
	p := profileBy(r, func(l *futex.Lock) []futex.StackShare { return l.Blamed }, row)
	p.Title("waits for locks, by what released them")
	return p
}

// CheckBlame reports a format in which waits cannot be charged to what ended them: one
// without stacks of its own.
func CheckBlame(blame bool, f profile.Format) error {
	if blame && !f.Page && (f.Write == nil || f.Timed) {
		return errors.New("--blame is for profiles of stacks: --format=folded, pprof, speedscope or html")
	}
	return nil
}

func noRow(*futex.Lock) int32 { return 0 }

// profileOf is Profile with the rows of the locks, 0 for none.
func profileOf(r *futex.Report, row func(*futex.Lock) int32) *profile.Profile {
	return profileBy(r, func(l *futex.Lock) []futex.StackShare { return l.WaitStacks }, row)
}

// profileBy is a profile of the stacks that a function returns of a lock.
func profileBy(r *futex.Report, stacks func(*futex.Lock) []futex.StackShare, row func(*futex.Lock) int32) *profile.Profile {
	unit := profile.Waits
	if r.Ticks {
		unit = profile.WaitTicks
	}
	p := profile.New(unit)
	for _, l := range r.Locks {
		labels := labelsOf(l)
		labels.Row = row(l)
		whole := profile.Value{Count: l.Slept, Time: l.Time}
		for _, s := range stacks(l) {
			part := profile.Value{Count: s.Count, Time: s.Time}
			whole.Count, whole.Time = whole.Count-part.Count, whole.Time-part.Time
			p.Add(p.Kept(s.Stack, s.None), labels, part)
		}
		addRest(p, whole)
	}
	if l := r.OtherLocks; l != nil {
		addRest(p, profile.Value{Count: l.Slept, Time: l.Time})
	}
	return p
}

// addRest adds waits whose stacks the analysis had no room for.
func addRest(p *profile.Profile, v profile.Value) {
	if v.Count > 0 || v.Time > 0 {
		p.AddOther(profile.Value{Count: max(v.Count, 0), Time: max(v.Time, 0)})
	}
}

// lockLabel returns a lock in a few words.
func lockLabel(l *futex.Lock) string {
	if l.Futexes > 1 && (l.Each || l.Group != "") {
		return kindName(l) + " " + where(l)
	}
	s := fmt.Sprintf("%s %s", l.Kind, l.Name())
	if l.File != "" {
		s += fmt.Sprintf(" at %#x of %s", l.Offset, l.File) + late(l)
	}
	return s
}

// labelsOf returns the labels of a lock. A lock that processes may share has a
// name of its waiters only if all of them have the same one.
func labelsOf(l *futex.Lock) profile.Labels {
	out := profile.Labels{Lock: lockLabel(l)}
	switch p := l.Process; {
	case l.Shared && !l.Local:
		out.Comm = sameComm(l.Waiters)
	case p != nil:
		out.PID, out.Comm = max(p.TGID, 0), p.Comm
	}
	return out
}

// sameComm returns the name that all threads have, "" if they have not one.
func sameComm(list []futex.ThreadTime) string {
	for i := range list {
		if list[i].Comm != list[0].Comm {
			return ""
		}
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].Comm
}
