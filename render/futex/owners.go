package futex

import (
	"cmp"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Waiting is a wait that has not ended, whose lock's owner can be read.
type Waiting struct {
	TID     int32
	Address uint64
	wait    *wait
	since   tracefs.Time
}

// reading is the owner of a lock, by its memory.
type reading struct {
	owner int32
	at    tracefs.Time
}

// recent are the last readings of a lock, the newest last. The newest ones may be ahead
// of the trace.
type recent []reading

// maxRecent bounds them: with readings 50 ms apart the trace may be 150 ms late.
const maxRecent = 4

// with returns the readings with one more.
func (r recent) with(one reading) recent {
	if len(r) == maxRecent {
		r = r[:copy(r, r[1:])]
	}
	return append(r, one)
}

// merged returns the newest readings of two locks that are one.
func (r recent) merged(other recent) recent {
	if len(other) == 0 {
		return r
	}
	all := slices.Concat(r, other)
	sorting.StableFunc(all, func(a, b reading) int { return cmp.Compare(a.at, b.at) })
	return all[max(0, len(all)-maxRecent):]
}

// between returns the newest reading between two times, the zero value if there is
// none or nothing held the lock.
func (r recent) between(from, to tracefs.Time) reading {
	for _, one := range slices.Backward(r) {
		if one.at <= to && one.at >= from {
			return one
		}
	}
	return reading{}
}

// maxReadings is how many locks are asked for at once.
const maxReadings = 64

// Waiting returns waits that have lasted since a time at least: the oldest one
// of each futex, of the first few of them.
func (a *Analysis) Waiting(since tracefs.Time) []Waiting { return a.holders.waiting(since) }

func (hs *holders) waiting(since tracefs.Time) []Waiting {
	oldest := make(map[*lock]*wait)
	for th := range hs.tasks.threads.all() {
		w := th.wait
		if !th.in || w == nil || w.lock == nil || w.since > since {
			continue
		}
		l := w.lock.find()
		if hs.locks.known(th, keyOf(&th.futex)) != l {
			continue // it has been moved to another futex
		}
		if old := oldest[l]; old == nil || older(w, old) < 0 {
			oldest[l] = w
		}
	}
	var list []*wait
	for _, w := range oldest {
		list = append(list, w)
	}
	slices.SortFunc(list, older)
	var out []Waiting
	for _, w := range cut(list, maxReadings) {
		out = append(out, Waiting{TID: w.th.tid, Address: w.th.futex.Addr, wait: w, since: w.since})
	}
	return out
}

// older orders waits, the oldest first.
func older(w, v *wait) int {
	return cmp.Or(cmp.Compare(w.since, v.since), cmp.Compare(w.th.tid, v.th.tid))
}

// Owned notes that a thread held the lock of a wait at a time, as its memory had
// it while the other waited.
func (a *Analysis) Owned(w Waiting, owner int32, comm string, at tracefs.Time) {
	a.holders.owned(w, owner, comm, at)
}

func (hs *holders) owned(w Waiting, owner int32, comm string, at tracefs.Time) {
	if w.wait.th.wait != w.wait || w.wait.since != w.since {
		return // it has ended since
	}
	l := w.wait.lock.find()
	l.owners.add(owner, Tally{Count: 1})
	l.read = l.read.with(reading{owner, at})
	hs.tasks.nameOwner(owner, comm)
}

// readings lists the owners of a lock by how often each was read, and how often
// that was.
func (rp *reporter) readings(l *lock) (list []ThreadTime, all int64) {
	list = rp.times(l.owners)
	for _, o := range list {
		all += o.Count
	}
	return list, all
}

// owned returns the owner of the lock of a wait: by its memory, if that was read since
// the wait began, or by the trace, which also knows since when. A reading from a time
// that the trace has not reached proves nothing yet: the thread that waits by the
// trace may have gone on before.
func (u *underway) owned(b *Blocked, w *wait, l *lock) {
	rp := u.rp
	_, _, lost := u.gaps.Within(l.ownedFrom, u.end)
	seen := l.owner != 0 && !lost && l.kind().exclusive()
	switch read := l.read.between(w.since, u.end); {
	case read.owner != 0 && (!seen || l.owner != read.owner):
		b.Owner, b.OwnedFrom, b.OwnerRead = read.owner, read.at, true
	case seen:
		b.Owner, b.OwnedFrom = l.owner, l.ownedFrom
	default:
		return
	}
	if owner := rp.tasks.threads.get(b.Owner); owner != nil {
		b.OwnerDead = owner.dead
	}
}
