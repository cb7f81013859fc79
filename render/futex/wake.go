package futex

import (
	"slices"

	"ustack/tracefs"
)

// site is all that goes on at one address, whatever the process: the waiters,
// in the order in which they came, and wakeups that are under way or have not
// found all their waiters.
type site struct {
	key     lockKey
	gone    bool // there is another one now
	waiters []*wait
	wakes   []*wake
	past    pastWakes
	// any is when the last call of any process was made that wakes waiters here, unsure
	// the same of one whose process is unknown.
	any, unsure tracefs.Time
}

// pastWakes are the last calls at a site while there were waiters, as a ring.
type pastWakes struct {
	list []pastWake
	next int
}

type pastWake struct {
	at tracefs.Time
	*wake
}

const maxPastWakes = 64

func (p *pastWakes) add(k *wake) {
	x := pastWake{k.at, k}
	if len(p.list) < maxPastWakes {
		p.list = append(p.list, x)
		return
	}
	p.list[p.next] = x
	p.next = (p.next + 1) % maxPastWakes
}

// between appends the calls after one time and up to another, the oldest
// first. all is false if there may have been more.
func (p *pastWakes) between(to []*wake, after, upTo tracefs.Time) (list []*wake, all bool) {
	n := len(p.list)
	all = n < maxPastWakes
	for i := range n { // the newest first
		k := &p.list[(p.next+n-1-i)%n]
		if k.at <= after {
			all = true
			break
		}
		if k.at <= upTo {
			to = append(to, k.wake)
		}
	}
	slices.Reverse(to)
	return to, all
}

// wakers examines the calls that can have woken a waiter which has returned. one means
// that there is only one such call, oneProcess that all are of the process of its waker,
// which then woke it by one of its threads. A call whose waiters are surely others cannot
// have been it.
func (st *sites) wakers(w *wait) (one, oneProcess bool) {
	if w.site == nil || w.crossed || w.waker.wake == nil {
		return false, false
	}
	var all bool
	st.past, all = w.site.past.between(st.past[:0], w.since-1, w.end)
	p := w.waker.wake.th.proc.find()
	one, oneProcess = all, all
	for _, k := range st.past {
		if k.may(w) && (k.woke || !k.returned) && (k.woken == 0 || k.proven < k.woken) {
			one = one && k == w.waker.wake
			oneProcess = oneProcess && k.th.proc.find() == p
		}
	}
	return one, oneProcess
}

// crosses reports whether a call may be under way that can wake a thread that begins
// to wait now.
func (st *sites) crosses(s *site, w *wait) bool {
	return st.unaware || len(s.wakes) >= maxSiteCalls || slices.ContainsFunc(s.wakes, func(k *wake) bool { return !k.returned && k.may(w) })
}

// wake is a call that lets others go on.
type wake struct {
	th    *thread
	lock  *lock // nil if there is none yet
	key   lockKey
	asked uint32 // how many to wake
	site  *site
	at    tracefs.Time
	line  int64        // of its entry, 0 if calls are not kept
	got   tracefs.Time // when the thread got the lock, if it waited for it
	owned tracefs.Time // the same, with other locks taken since; 0 if it did not wait
	ran   tracefs.Time // when the first one that it woke did, 0 if none has
	again tracefs.Time // when it began to wait again, 0 if it has not
	stack int32
	// move is where waiters go that are not woken, for requeue operations;
	// first is how many are woken before.
	move  *lock
	first int
	// claimed is how many waiters are known to be its, left how many more
	// there are. left counts once the call has returned.
	claimed, left int
	done          tracefs.Time
	returned      bool
	woke          bool // a waiter
	woken, proven int  // how many, and of how many of those it is sure
	elsewhere     bool // it may have woken threads at another futex, too (WAKE_OP)
	pi            bool
	hold          *hold // that it ends, nil if there is none
	turn          turn  // what it shows of turns
	// ownedCall is when the call began from which it returned at owned.
	ownedCall tracefs.Time
	// passed is when the call was made that handed the lock to its thread, 0 if it was not
	// handed over, or that is not certain.
	passed tracefs.Time
	// found is since when its thread surely owned the lock, if it had not waited for it: then
	// another thread found it taken. 0 if that is unknown.
	found, foundProof tracefs.Time
	// doubted is set if a later call shows that another thread may have owned the lock then,
	// unheard if there may be such a call yet.
	doubted, unheard bool
}

// waker is the thread that ended a wait.
type waker struct {
	tid   int32 // 0: unknown
	comm  string
	at    tracefs.Time
	stack int32
	lock  *lock
	// sure is set if no other thread can have been it, seen if the scheduler says so.
	sure, seen bool
	wake       *wake // its call
}

// Bounds of one site: wakeups whose waiters are not all known, wakeups under
// way, and threads that wait. The wakers of threads beyond that are unknown.
const (
	maxSiteWakes   = 64
	maxSiteCalls   = 1 << 10
	maxSiteWaiters = 1 << 10
)

// site returns where a thread's futex is; l is the lock there, nil if there is
// none. A futex in a file has no one address: its lock has its own site.
func (st *sites) site(key lockKey, l *lock) *site {
	if l != nil && l.site != nil && !l.site.gone {
		return l.site
	}
	var s *site
	inFile := l != nil && l.file != (fileKey{})
	if !inFile {
		s = st.atKey(key)
	}
	if s == nil {
		s = &site{key: key}
		if !inFile {
			st.boundSites()
			st.byKey[key] = s
		}
	}
	if l != nil {
		l.site = s
	}
	return s
}

// atKey returns the site of a key, nil if there is none.
func (st *sites) atKey(key lockKey) *site {
	slot := &st.recent[key.addr*0x9e3779b97f4a7c15>>(64-recentSiteBits)]
	if s := *slot; s != nil && s.key == key && !s.gone {
		return s
	}
	s := st.byKey[key]
	if s != nil {
		*slot = s
	}
	return s
}

// boundSites forgets sites without waiters: first the ones without calls under way.
func (st *sites) boundSites() {
	if len(st.byKey) < st.most {
		return
	}
	st.forgetSites(func(s *site) bool { return len(s.waiters)+len(s.wakes) == 0 })
	if hardlyAny(st.most-len(st.byKey), st.most) {
		st.unaware = true
		st.forgetSites(func(s *site) bool { return len(s.waiters) == 0 })
	}
}

func (st *sites) forgetSites(which func(*site) bool) {
	for key, s := range st.byKey {
		if which(s) {
			s.gone = true
			delete(st.byKey, key)
		}
	}
}

// idle forgets calls when there are no more waiters: a call that has returned does
// not wake later ones.
func (s *site) idle() {
	if len(s.waiters) == 0 {
		clear(s.past.list)
		s.past = pastWakes{list: s.past.list[:0]}
		s.wakes = slices.DeleteFunc(s.wakes, func(k *wake) bool { return k.returned })
	}
}

// may reports whether a call can have woken a waiter.
func (k *wake) may(w *wait) bool {
	return !distinct(k.th.proc.find(), w.th.proc.find()) || k.site.key.shared
}

// of reports whether a call is known to be for a lock.
func (k *wake) of(l *lock) bool { return k.lock != nil && k.lock.find() == l }

// wakeReturned gives the n waiters that a call has woken to it.
func (st *sites) wakeReturned(k *wake, n int, t tracefs.Time) {
	k.returned, k.left, k.done = true, max(n-k.claimed, 0), t
	s := k.site
	if k.left > 0 {
		st.assign(k, t, nil)
	}
	if k.left == 0 {
		s.wakes = slices.DeleteFunc(s.wakes, func(x *wake) bool { return x == k })
	} else if len(s.wakes) > maxSiteWakes {
		s.wakes = slices.Delete(s.wakes, 0, 1)
	}
	s.idle()
}

// assign gives the waiters that have come first to a call; the kernel wakes
// in that order (plist_for_each_entry in kernel/futex/waitwake.c; threads of
// higher priority go before).
//
// FUTEX_CMP_REQUEUE_PI gives the mutex to the first one if it is free, else all are
// moved (futex_proxy_trylock_atomic in kernel/futex/requeue.c). Only the scheduler's
// events show which; without them the first one counts as moved, too: if it was woken,
// all that counts for the mutex is the time until it runs.
//
// ended is a waiter that was none of them, nil if there is none.
func (st *sites) assign(k *wake, t tracefs.Time, ended *wait) {
	own := k.th.proc.find()
	var fit int
	for _, w := range k.site.waiters {
		if w.waker.tid == 0 && w.since <= t && w != ended && k.may(w) {
			fit++
		}
	}
	sure := fit <= k.left && !k.elsewhere
	moves := fit // a waiter that is moved to where it is counts once
	// Waiters that are known to be of the same process first.
	for pass := range 2 {
		for i := 0; i < len(k.site.waiters) && k.left > 0; i++ {
			w := k.site.waiters[i]
			if w.waker.tid != 0 || w.since > t || w == ended || !k.may(w) || (pass == 0) != (w.th.proc.find() == own) {
				continue
			}
			if moves--; moves < 0 {
				return
			}
			k.left--
			k.claimed++
			if k.move != nil && (k.claimed > k.first || k.pi) {
				st.requeued(w, k, sure)
				i-- // it has left the site
				continue
			}
			w.waker = k.waker(sure)
		}
	}
}

func (k *wake) waker(sure bool) waker {
	return waker{tid: k.th.tid, comm: k.th.comm, at: k.at, stack: k.stack, lock: k.lock, sure: sure, wake: k}
}

// wokenBy takes the waker of a waiter from the scheduler, if that thread is in a
// call that can wake it.
func (st *sites) wokenBy(w *wait, tid int32) {
	by := st.tasks.threads.get(tid)
	if by == nil || by.wake == nil || by.wake.returned {
		return
	}
	k := by.wake
	if k.site != w.site && !(k.site.key.shared && w.site != nil && w.site.key.shared) && k.move == nil {
		return
	}
	if w.waker.wake != k {
		if other := w.waker.wake; other != nil {
			other.release()
		}
		k.claimed++
	}
	w.waker = k.waker(true)
	w.waker.seen = true
}

// claim finds the call that has woken a waiter which returns.
func (st *sites) claim(w *wait) {
	if w.waker.tid != 0 || w.site == nil {
		return
	}
	var found *wake
	n := 0
	for _, k := range w.site.wakes {
		if k.at > w.end || !k.may(w) || k.returned && (k.left == 0 || k.done < w.since) {
			continue
		}
		if n++; found == nil {
			found = k
		}
	}
	if found != nil {
		found.claimed++
		if found.returned {
			found.left--
		}
		w.waker = found.waker(n == 1 && !found.elsewhere)
		if found.returned && found.left == 0 {
			w.site.wakes = slices.DeleteFunc(w.site.wakes, func(x *wake) bool { return x == found })
		}
		return
	}
	// All wakeups went to other waiters: one of those still waits, and was
	// not the one.
	for _, v := range w.site.waiters {
		if v != w && v.waker.tid != 0 && v.waker.at >= w.since && v.waker.wake != nil && v.waker.wake.may(w) {
			w.waker, v.waker = v.waker, waker{stack: noStack}
			w.waker.sure, w.waker.seen = false, false
			return
		}
	}
}

// release takes a waiter from a call that was given it. If the call has woken more than it
// has then, it is owed one.
func (k *wake) release() {
	k.claimed--
	if k.returned {
		k.left = max(k.woken-k.claimed, 0)
	}
}

// giveBack returns the wakeup of a waiter that ended without it. If its call has
// returned, another thread that waited then had it.
func (st *sites) giveBack(w *wait) {
	k := w.waker.wake
	w.waker = waker{stack: noStack}
	if k == nil {
		return
	}
	k.release()
	if !k.returned {
		return
	}
	st.assign(k, k.done, w)
	if s := k.site; k.left > 0 && len(s.waiters) > 0 && !slices.Contains(s.wakes, k) && len(s.wakes) < maxSiteWakes {
		s.wakes = append(s.wakes, k)
	}
}

// maxMoves bounds how often a waiter is moved from one futex to another: one call
// moves them all.
const maxMoves = 16

// enterWait queues a wait at a lock.
func (st *sites) enterWait(w *wait, l *lock) {
	w.lock, w.counts = l, true
	l.active++
	st.activity.begins(w)
	if w.moves > maxMoves || st.locks.folded(l) {
		return // its waker is unknown
	}
	if s := st.site(l.key, l); len(s.waiters) < maxSiteWaiters {
		w.site, w.crossed = s, st.crosses(s, w)
		s.waiters = append(s.waiters, w)
	}
}

// leave takes a wait out of the queue.
func (st *sites) leave(w *wait) {
	if w.counts {
		w.counts = false
		w.lock.find().active--
		st.activity.ended(w)
	}
	if w.site == nil {
		return
	}
	s := w.site
	w.site = nil
	if i := slices.Index(s.waiters, w); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
	}
	s.idle()
}

// requeued moves a waiter to another futex: its wait here ends, and one there
// begins.
func (st *sites) requeued(w *wait, k *wake, sure bool) {
	w.waker, w.end = k.waker(sure), k.at
	st.moved(w)
	st.leave(w)
	w.waker, w.since, w.acc, w.from = waker{stack: noStack}, k.at, 0, k.at
	w.began, w.before, w.resumed = k.at, 0, false
	w.moves++
	to := k.move.find()
	if w.cmd.PI() {
		to.traits.pi++
	}
	st.enterWait(w, to)
}

// emptyWakes remembers the last calls that woke no thread, in two generations: a
// wait that begins after one, and never ends, may have missed it.
type emptyWakes struct {
	young, old map[lockKey]emptyWake
}

type emptyWake struct {
	proc  *process
	tid   int32
	at    tracefs.Time
	stack int32
}

const maxEmptyWakes = 1 << 11

func (e *emptyWakes) add(key lockKey, w emptyWake) {
	if e.young == nil || len(e.young) >= maxEmptyWakes {
		e.young, e.old = make(map[lockKey]emptyWake), e.young
	}
	e.young[key] = w
}

func (e *emptyWakes) get(key lockKey) (emptyWake, bool) {
	if w, ok := e.young[key]; ok {
		return w, true
	}
	w, ok := e.old[key]
	return w, ok
}

// lockOf returns the lock of a wakeup, made if need be.
func (st *sites) lockOf(k *wake) *lock {
	if k.lock == nil {
		k.lock = st.locks.lock(k.th, k.key, k.at)
		k.lock.active++
		k.lock.traits.wake(k.asked, k.move != nil)
		if k.returned {
			k.lock.active--
		}
	}
	return k.lock.find()
}
