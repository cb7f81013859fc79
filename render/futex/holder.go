package futex

import (
	"slices"

	"ustack/tracefs"
)

// Segment is a part of a wait during which one thread held the lock, until it
// released it: since it acquired it by waiting, or else at most since another
// thread had released it.
type Segment struct {
	TID      int32
	From, To tracefs.Time
}

// Holder is the thread that most likely held a lock during a wait.
type Holder struct {
	TID int32
	// Share is the part of the wait, 0 to 1.
	Share float64
	// Sure is high confidence: the futex is a mutex, each unlocking while
	// threads wait makes a system call, all of those are in the trace, and
	// the thread's are the most, also if another one had the lock whenever a
	// woken thread was on its way.
	Sure bool
	// Why is what is missing for high confidence, "" if nothing.
	Why string
	// locks are the ones that the holders released, as far as they are not known
	// to be one; foreign is set if some of them are unknown.
	locks   []*lock
	foreign bool
}

// holders knows who owns which lock, and in which order threads take them. It reads the
// past calls at the site of a wait.
//
// Invariants:
//   - A lock is owned by one thread by the trace: owner is the number of owning, or there
//     is no owning any more.
//   - A thread holds no more than maxHolds locks.
//   - An order is of two locks; there are no more than maxOrder.
//   - A lock has no more than maxRecent readings.
type holders struct {
	order map[orderKey]*orderSeen // in which threads take locks
	past  []*wake                 // scratch, as segs
	segs  []Segment
	terms []tenure
	needs []*process
	// complete is set if past has all calls of the wait that it is of.
	complete bool
	let      []int32 // the stacks of the calls that ended segs

	tasks *tasks
	locks *locks
}

// holder finds the owners of a mutex during a wait that has ended. While a thread waits
// the word says so, so each unlocking makes a call: the thread that makes it has held
// the lock since the call before, or since the wait began, or if it has itself
// waited, since that ended. While no thread has marked the lock as waited for, as between
// a release and the return of the woken thread, it can change owners unseen: that counts as
// if it was one more thread, or more of the second one. Owners before a
// signal broke the wait off, or until it went on, are not looked for.
func (hs *holders) holder(w *wait, l *lock, returned tracefs.Time) (h Holder, segs []Segment) {
	end := w.heldUntil(returned)
	hs.past, hs.segs, hs.let, hs.complete = hs.past[:0], hs.segs[:0], hs.let[:0], false
	h.foreign = w.strange
	if w.site != nil {
		hs.past, hs.complete = w.site.past.between(hs.past, w.began, end)
	}
	from := w.began
	var unseen tracefs.Time
	var last *wake
	for _, k := range hs.past {
		if k.th == w.th || !k.may(w) {
			continue
		}
		h.let(k, l)
		hs.segs, hs.let = append(hs.segs, Segment{k.th.tid, max(from, k.got), k.at}), append(hs.let, k.stack)
		if last != nil {
			unseen += min(last.seenTaken(k), k.at) - from
		}
		from, last = k.at, k
	}
	if !w.cmd.PI() {
		unseen += returned - end
	}
	if len(hs.segs) == 0 {
		if w.waker.tid == 0 {
			return Holder{Why: "no release is in the trace"}, nil
		}
		hs.segs, hs.let = append(hs.segs, Segment{w.waker.tid, w.began, end}), append(hs.let, w.waker.stackID())
	}
	tid, most, second := mostOf(hs.segs)
	h.TID, h.Share = tid, float64(most)/float64(max(w.before+returned-w.began, 1))
	switch {
	case w.before > 0:
		h.Why = "a signal interrupted the wait meanwhile"
	case !hs.complete:
		h.Why = "too many threads released it meanwhile"
	case w.waker.tid == 0:
		h.Why = "no wakeup of the thread is in the trace"
	case float64(most) < clearly*float64(second):
		h.Why = "several threads held it for about as long"
	case float64(most) < clearly*float64(second+unseen): // it may have been the same one
		h.Why = "other threads can have held it unseen for about as long"
	default:
		h.Sure = true
	}
	return h, hs.segs
}

// seenTaken returns from when on a lock that one call released was surely held by
// the thread that released it with the next call: since that thread acquired it by
// waiting, else since the woken thread ran and marked it as waited for. Before, any
// thread can have acquired and released it without a system call.
func (k *wake) seenTaken(next *wake) tracefs.Time {
	switch {
	case next.got > k.at:
		return next.got
	case !k.woke && k.returned:
		return k.at
	case k.ran > 0:
		return k.ran
	}
	return next.at
}

// let notes that a call released a lock.
func (h *Holder) let(k *wake, l *lock) {
	const most = 16
	switch {
	case k.of(l) || slices.Contains(h.locks, k.lock):
	case k.lock == nil || len(h.locks) == most:
		h.foreign = true
	default:
		h.locks = append(h.locks, k.lock)
	}
}

// check decides on high confidence when the whole trace is known: which locks
// are one, and what was lost.
func (w *Wait) check(gaps *Gaps) {
	h := &w.Holder
	if h.TID == 0 {
		return
	}
	l := w.lock.find()
	if !l.kind().exclusive() {
		h.Sure, h.Why = false, "not known to be a mutex"
	}
	if h.foreign || slices.ContainsFunc(h.locks, func(x *lock) bool { return x.find() != l }) {
		h.Sure, h.Why = false, "it is not proven that all releases are of the same lock"
	}
	if _, _, lost := gaps.Within(w.From, w.From+w.Time); lost {
		h.Sure, h.Why = false, "records were lost meanwhile"
	}
}

// clearly is how many times as long as any other a thread must have held a lock
// for being called its holder.
const clearly = 1.2

// mostOf returns the thread that has most of the time, how long that is, and
// how long the next one's is.
func mostOf(segs []Segment) (tid int32, most, second tracefs.Time) {
	for i := range segs {
		var sum tracefs.Time
		for k := range segs {
			if segs[k].TID == segs[i].TID {
				sum += segs[k].To - segs[k].From
			}
		}
		switch {
		case segs[i].TID == tid:
		case tid == 0 || sum > most:
			tid, most, second = segs[i].TID, sum, most
		default:
			second = max(second, sum)
		}
	}
	return tid, most, second
}

// leavesMark reports whether a thread that got a lock by this wait cannot release
// it without a system call. A thread woken from value 2 sets the word to 2, and
// UNLOCK_PI leaves FUTEX_WAITERS to the thread that it hands the lock to
// (wake_futex_pi in kernel/futex/pi.c); not so LOCK_PI that did not have to wait,
// nor musl, whose words have that bit only while threads wait
// (src/thread/pthread_mutex_timedlock.c).
func (w *wait) leavesMark() bool {
	if w.cmd.PI() {
		return w.waker.tid != 0
	}
	return w.val&futexWaiters == 0
}

// owns notes that a thread has got a lock by waiting, if it does not wait for
// it again at once: another thread can have taken it meanwhile. It has set the
// word to "locked, with waiters", so its unlocking will make a system call.
func (hs *holders) owns(w *wait, l *lock) {
	l.owner, l.owning, l.ownedFrom, l.ownedCall = w.th.tid, w.th, w.end, w.since
	l.given = 0
	if k := w.waker.wake; w.waker.seen && k != nil && k.of(l) {
		l.given = k.at
	}
	th := w.th
	th.got, th.gotAt, th.gotCall = l, w.end, w.since
	if len(th.holds) < maxHolds {
		th.holds = append(th.holds, l)
	}
}

// maxHolds bounds the locks that a thread is known to hold.
const maxHolds = 64

// releasedBy notes that a thread releases a lock.
func (hs *holders) releasedBy(th *thread, l *lock) {
	l.owner = 0
	th.holds = slices.DeleteFunc(th.holds, func(x *lock) bool { return x.find() == l || x.find().owner != th.tid })
}

// orderKey is two locks, of which the second was waited for by a thread that
// held the first.
type orderKey struct{ held, wanted *lock }

// orderSeen is when a thread first did.
type orderSeen struct {
	tid int32
	at  tracefs.Time
}

const maxOrder = 1 << 12

// ordered notes which locks a thread holds that begins to wait for another.
func (hs *holders) ordered(th *thread, w *wait, l *lock) {
	if l.owner == th.tid {
		l.owner = 0 // it was woken, but another thread was faster
	}
	if th.got != nil && th.got.find() == l {
		th.got = nil
	}
	held := th.holds[:0]
	for _, x := range th.holds {
		x = x.find()
		if x.owner != th.tid {
			continue
		}
		held = append(held, x)
		if len(hs.order) >= maxOrder {
			continue
		}
		if key := (orderKey{x, l}); hs.order[key] == nil {
			hs.order[key] = &orderSeen{th.tid, w.from}
		}
	}
	clear(th.holds[len(held):])
	th.holds = held
}
