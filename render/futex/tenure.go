package futex

import (
	"slices"

	"ustack/tracefs"
)

// tenure is a part of a wait in which one thread surely owned the lock. Before it, from
// free on, the lock was handed over: another thread had released it, and woken a thread.
type tenure struct {
	tid            int32
	free, from, to tracefs.Time
	// barged is set if the thread took the lock meanwhile without waiting for it.
	barged bool
}

// tenures lists who surely owned a lock during a wait up to a time, in order. They do
// not overlap. It uses the calls that holder has looked at. The list holds only if the
// processes in needs prove to be the lock's.
func (hs *holders) tenures(w *wait, l *lock, to tracefs.Time) []tenure {
	hs.terms, hs.needs = hs.terms[:0], hs.needs[:0]
	at := w.began
	var last *wake
	known := hs.complete // no release is missing before the next one
	for _, k := range hs.past {
		if k.th == w.th || !k.may(w) {
			continue
		}
		switch {
		case k.surely(l):
		case k.key == l.key && !k.key.shared: // if it is of the same process
			if p := k.th.proc.find(); !slices.Contains(hs.needs, p) {
				hs.needs = append(hs.needs, p)
			}
		default: // perhaps of another lock
			last, known = nil, false
			continue
		}
		one := tenure{tid: k.th.tid, free: at, from: at, to: min(k.at, to)}
		switch {
		case k.owned > at: // it waited, too
			one.from = k.owned
			if last == nil || !last.woke {
				one.free = k.owned
			}
		case !known:
			one.from = one.to
		case last != nil:
			one.from, one.barged = last.taken(k), w.leavesMark()
		}
		if one.from < one.to {
			hs.terms = append(hs.terms, one)
		}
		at, last, known = max(at, one.to), k, true
	}
	return hs.terms
}

// surely reports whether a call is for a lock, by now.
func (k *wake) surely(l *lock) bool {
	return k.of(l) || l.proc != nil && k.key == l.key && k.th.proc.find() == l.proc.find()
}

// taken returns from when on a lock that one call released was surely owned by the
// thread that released it next, which has not waited for it: since the woken thread
// found it taken, and waited again.
func (k *wake) taken(next *wake) tracefs.Time {
	switch {
	case !k.woke && k.returned:
		return k.at
	case k.again > 0:
		return k.again
	}
	return next.at
}
