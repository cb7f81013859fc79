package futex

import (
	"slices"

	"ustack/tracefs"
)

// tenure is a part of a wait in which one thread surely owned the lock. handed is how long
// the lock had been handed over before it: another thread had released it, and woken this
// one, which had not returned.
type tenure struct {
	tid      int32
	from, to tracefs.Time
	proof    tracefs.Time // since when that was seen
	handed   tracefs.Time
	// barged is set if the thread took the lock meanwhile without waiting for it.
	barged bool
	call   *wake // that ended it
}

// tenures lists who surely owned a lock during a wait up to a time, in order. They do
// not overlap. It uses the calls that holder has looked at. The list holds only if the
// processes in needs prove to be the lock's.
func (hs *holders) tenures(w *wait, l *lock, to tracefs.Time) []tenure {
	hs.terms, hs.needs = hs.terms[:0], hs.needs[:0]
	at := w.began
	var last *wake
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
			last = nil
			continue
		}
		one := tenure{tid: k.th.tid, from: to, to: min(k.at, to), call: k}
		switch {
		case k.owned > 0: // it waited, too
			one.from, one.proof = max(at, k.owned), k.ownedCall
			one.handOver(last, at, k.owned)
		case k.found > 0:
			one.from, one.proof, one.barged = max(at, k.found), k.foundProof, last != nil && w.leavesMark()
			one.handOver(last, at, min(one.from, last.back()))
		default:
			one.handOver(last, at, last.back())
		}
		if one.from = min(one.from, one.to); one.handed > 0 || one.from < one.to {
			hs.terms = append(hs.terms, one)
		}
		at, last = max(at, one.to), k
	}
	return hs.terms
}

// handOver notes that the thread which the last release woke returned from its call at a
// time.
func (t *tenure) handOver(last *wake, from, back tracefs.Time) {
	if last != nil && last.woke {
		t.handed = max(min(back, t.to)-from, 0)
	}
}

// back returns when the thread that a call woke waited again, as it found the lock taken, 0
// if it has not.
func (k *wake) back() tracefs.Time {
	if k == nil {
		return 0
	}
	return k.again
}

// found returns the call that ended it if its thread had not waited for the lock.
func (t *tenure) found() *wake {
	if t.call.owned > 0 {
		return nil
	}
	return t.call
}

// surely reports whether a call is for a lock, by now.
func (k *wake) surely(l *lock) bool {
	return k.of(l) || l.proc != nil && k.key == l.key && k.th.proc.find() == l.proc.find()
}

// found finds out since when the thread of a call surely owned the lock that it releases, if
// it had not waited for it: a thread that waits found the lock taken. Of the first one that
// did so after the last release, that was by this thread, unless another one released the
// lock then and has not made its call. first is the first one if there is surely none such.
func (hd *held) found(k *wake, l *lock, first *wait) {
	if first == nil {
		var waiters int32
		first, k.unheard = k.site.queued(k, l, 0, &waiters), true
	}
	if first == nil {
		return
	}
	if first.val == 2 && !first.cmd.PI() { // it has set the word to that, and found it taken
		k.found, k.foundProof = first.began, first.began
		return
	}
	if at, proof, ok := hd.activity.sleptAt(first.th.tid, first.began); ok && at < k.at {
		k.found, k.foundProof = at, proof
	}
}

// sureOwner reports whether it is sure that the thread of a call owned the lock since found.
// No call is one of a thread that had waited for it.
func (k *wake) sureOwner(a *activity) bool {
	if k == nil {
		return true
	}
	if k.doubted || k.lock == nil {
		return false
	}
	if p := k.lock.find().past; p != nil && k.at > p.dim.from && k.at <= p.dim.to {
		return false
	}
	return !k.unheard || !a.mayBeUnheard(k, false)
}
