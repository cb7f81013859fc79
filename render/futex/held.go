package futex

import (
	"slices"

	"ustack/render/lost"
	"ustack/tracefs"
)

// taken is a lock that a thread may own: at is when it returned from the last call by which
// it waited for it, which began at began. marked is set if it cannot release it without a
// system call.
type taken struct {
	lock      *lock
	key       lockKey // as the thread has it
	began, at tracefs.Time
	line      int64 // of that return, 0 if calls are not kept
	marked    bool
}

// maxTaken bounds the locks that a thread is known to have taken.
const maxTaken = 8

// takes notes that a thread has taken a lock.
func (th *thread) takes(x taken) {
	before := th.took
	if th.took = append(before, x); len(before) > 0 && &before[0] != &th.took[0] {
		clear(before) // the first room stays as long as the thread, and would keep its lock
	}
}

// dropLock forgets that a thread has taken a lock, and returns what was known.
func (th *thread) dropLock(l *lock) (x taken, ok bool) {
	for i := len(th.took) - 1; i >= 0; i-- {
		y := &th.took[i]
		if y.lock == l || (y.key == l.key || y.key.shared) && y.lock.find() == l {
			if !th.left(l, y.began) {
				x, ok = *y, true
			}
			th.took = slices.Delete(th.took, i, i+1)
		}
	}
	return x, ok
}

// forgetLocks forgets the locks that are gone where threads have taken them, and where their
// processes have them, of which several can have the same one: nothing else keeps those in
// memory.
func (ts *tasks) forgetLocks(gone func(*lock) bool) {
	ts.looks++
	for th := range ts.threads.all() {
		th.took = slices.DeleteFunc(th.took, func(x taken) bool { return gone(x.lock.find()) })
		if p := th.proc.find(); p.looked != ts.looks {
			p.looked = ts.looks
			p.locks.dropAll(func(l *lock) bool { return gone(l.find()) })
			p.lefts.forget(gone)
		}
	}
}

// hold is a time in which a thread owned a lock that was contended: the thread had waited
// for it, or others waited when it released the lock.
type hold struct {
	tid  int32
	comm string
	lock *lock
	// It surely lasted from first to last, if that is later; it began at from at the
	// earliest, unless noFrom is set, and ended at to at the latest. exact means that it
	// lasted from from to to.
	from, first, last, to tracefs.Time
	noFrom, exact         bool
	waited                bool  // its thread did, before
	waiters               int32 // when it was released
	// fromProof is since when it was seen that it did not begin before from, proof since
	// when all else was.
	fromProof, proof tracefs.Time

	// Where the return from its wait and its release are in the text, 0 if unknown.
	fromLine, line int64

	stack  int32 // of the release
	pieces []heldPiece
	// samples are where the owner ran.
	samples []heldSample
	kept    bool
}

// heldPiece is how long an owner did something, with the stack that it had then.
type heldPiece struct {
	heldKey
	time tracefs.Time
}

// heldKey has no thread: one type for both keeps the program small.
type heldKey = rootKey

// low and high are how long it lasted at least and at most.
func (h *hold) low() tracefs.Time {
	if h.exact {
		return h.to - h.from
	}
	return max(h.last-h.first, 0)
}

func (h *hold) high() tracefs.Time { return h.to - h.from }

// release is when a thread has released a lock: between after and its call at at.
type release struct {
	tid       int32
	after, at tracefs.Time
	proof     tracefs.Time // since when that was seen
	hold      *hold        // that it ended, nil if it has been counted, or there is none
	call      *wake
}

// pastReleases are the last releases of a lock.
type pastReleases struct {
	list [8]release
	n    int
	// Owners that released the lock after dim.from, until dim.to, are not sure, if they had
	// not waited for it.
	dim struct{ from, to tracefs.Time }
}

func (p *pastReleases) add(r release) {
	p.list[p.n%len(p.list)] = r
	p.n++
}

// doubt makes unknown since when holds lasted of which the trace has no beginning, if
// another thread may have released the lock before they ended, after a time, and calls now:
// threads that wait may have found the lock taken by that one.
func (p *pastReleases) doubt(after tracefs.Time) {
	if p.n > len(p.list) {
		if oldest := p.list[p.n%len(p.list)].at; oldest > after { // and ones before it
			p.darken(after, oldest)
		}
	}
	for i := range p.list {
		r := &p.list[i]
		if r.hold != nil && r.hold.to == r.at && !r.hold.waited && r.at > after {
			r.hold.first, r.hold.pieces, r.hold.samples = r.hold.to, r.hold.pieces[:0], r.hold.samples[:0]
		}
		if r.call != nil && r.at > after {
			r.call.doubted = true
		}
	}
}

// darken makes unsure what owners did that released the lock in a time.
func (p *pastReleases) darken(from, to tracefs.Time) {
	if p.dim.to > 0 {
		from, to = min(from, p.dim.from), max(to, p.dim.to)
	}
	p.dim.from, p.dim.to = from, to
}

// since returns when a thread surely did not own a lock that it released after a time: it,
// or another thread, released it then, or later. It is 0 if that is unknown. proof is since
// when that was seen.
func (p *pastReleases) since(tid int32, after tracefs.Time) (t, proof tracefs.Time) {
	for i := range min(p.n, len(p.list)) {
		if r := &p.list[i]; (r.tid == tid || r.at <= after) && r.after > t {
			t, proof = r.after, r.proof
		}
	}
	return t, proof
}

// held knows for how long threads own locks that are contended. It sees that by the calls
// that release them: a lock that is taken without waiting is not in a trace.
//
// Invariants:
//   - A hold that a gap may still reach is in list after head, once; there are no more
//     than maxSpans.
//   - No hold ends before it begins, and its pieces are not longer than it surely lasted.
//   - A hold that may be used again is not kept.
//   - longest has no more than maxLongest, the shortest first.
//   - A thread has taken no more than maxTaken locks.
type held struct {
	list    []*hold
	head    int
	free    []*hold
	longest longestHolds

	losses   *losses
	activity *activity
	log      *callLog
}

// returned takes the return from a call by which a thread waited for a lock: it takes the
// lock, unless it waits again.
func (hd *held) returned(w *wait, r Result, line int64) {
	if w.strange || !w.likeLock() || r != Woken && (w.cmd.PI() || r != Changed && r != Interrupted) {
		return
	}
	th, l := w.th, w.lock.find()
	th.dropLock(l)
	if len(th.took) >= maxTaken {
		th.took = slices.Delete(th.took, 0, 1)
	}
	th.takes(taken{l, l.key, w.since, w.end, line, w.leavesMark()})
	hd.keep(th)
}

// waits takes the beginning of a wait: the thread does not own the lock.
func (hd *held) waits(th *thread, l *lock) {
	if _, ok := th.dropLock(l); ok {
		hd.keep(th)
	}
}

// keep has the activity of a thread kept since it took the first lock that it owns.
func (hd *held) keep(th *thread) {
	tl := hd.activity.known(th.tid)
	if tl == nil {
		return
	}
	tl.keep = 0
	for i := range th.took {
		if x := &th.took[i]; x.marked && (tl.keep == 0 || x.at < tl.keep) {
			tl.keep = x.at
		}
	}
}

// released returns after when the thread of a call released the lock, and since when that was
// seen.
func (hd *held) released(k *wake) (last, proof tracefs.Time) {
	if k.pi { // the kernel releases it in the call
		return k.at, k.at
	}
	return hd.activity.kept(k.th.tid, 0, k.at)
}

// after returns after when the thread of a call, which released the lock after last, may have
// done so.
func (hd *held) after(k *wake, last tracefs.Time) tracefs.Time {
	if tl := hd.activity.known(k.th.tid); tl != nil { // or before its last call
		return max(last, tl.waitsAt)
	}
	return last
}

// releases takes a call by which a thread releases a lock, while waiters are as they were.
func (hd *held) releases(k *wake, l *lock) {
	if l == nil {
		k.site.wakeSeen(k, nil)
		return
	}
	x, took := k.th.dropLock(l)
	switch {
	case took:
		hd.keep(k.th)
	case len(k.site.waiters) == 0:
		if l.past != nil {
			last, _ := hd.released(k)
			l.past.doubt(hd.after(k, last))
		}
		k.site.wakeSeen(k, l)
		return
	}
	last, proof := hd.released(k)
	h := hd.hold()
	h.tid, h.comm, h.lock, h.last, h.to, h.proof = k.th.tid, k.th.comm, l, last, k.at, proof
	h.line = k.line
	waited := took && x.marked
	unheard := tracefs.Time(0)
	if !waited && len(k.site.waiters) > 0 {
		unheard = hd.activity.unheard(k.th, k.at)
	}
	first := k.site.queued(k, l, unheard, &h.waiters)
	if l.past == nil {
		l.past = new(pastReleases)
	}
	if k.owned == 0 {
		hd.found(k, l, first)
	}
	l.past.doubt(hd.after(k, last))
	since, seen := l.past.since(h.tid, last)
	if waited {
		hd.waited(h, x, k.pi)
		waited = since <= h.first // else another thread owned it: this one has not taken it then
	}
	switch {
	case waited:
	case h.waiters > 0:
		if x.at > since {
			since, seen = x.at, x.began
		}
		h.from, h.fromProof, h.noFrom = since, min(seen, since), since == 0
		hd.unseen(h, first)
	default:
		hd.free = append(hd.free, h)
		h = nil
	}
	if h != nil {
		hd.spent(h)
		k.hold = h
	}
	l.past.add(release{k.th.tid, last, k.at, proof, h, k})
	k.site.wakeSeen(k, l)
}

// waited finds out how long a hold lasted whose thread had waited for the lock.
func (hd *held) waited(h *hold, x taken, pi bool) {
	h.waited, h.from, h.first, h.fromLine = true, x.at, x.at, x.line
	if !pi { // the kernel gave it to the thread
		at, proof := hd.activity.taken(h.tid, x.at, h.to)
		h.first, h.proof = at, min(h.proof, proof)
	}
	h.last, h.proof = max(h.last, h.from), min(h.proof, x.began)
	h.fromProof = h.proof
	h.exact = h.high()-h.low() <= 2*hd.activity.takes() && hd.activity.whole || pi
}

// unseen finds out how long a hold lasted of which the trace has no beginning. Threads that
// wait had found the lock taken; of the first one that did so after others had released the
// lock, if there is one, that was by this thread.
func (hd *held) unseen(h *hold, first *wait) {
	h.first, h.waited, h.exact, h.fromLine = h.to, false, false, 0
	if first == nil {
		return
	}
	if at, proof, ok := hd.activity.sleptAt(first.th.tid, first.began); ok && at < h.to {
		h.first, h.proof = at, min(h.proof, proof)
	}
}

// spent notes what the owner did while it surely owned the lock.
func (hd *held) spent(h *hold) {
	from, to := h.first, h.last
	if h.exact {
		from, to = h.from, h.to
	}
	h.sampled(&hd.activity.samples, from, to)
	hd.activity.during(h.tid, from, to, func(m *moment, _, t tracefs.Time) {
		h.proof = min(h.proof, m.proof)
		key := heldKey{cause: m.cause, stack: m.stack}
		if m.cause == causeRuns {
			key.stack = noStack
		}
		for i := range h.pieces {
			if x := &h.pieces[i]; x.heldKey == key {
				x.time += t
				return
			}
		}
		if len(h.pieces) < maxPieces {
			h.pieces = append(h.pieces, heldPiece{key, t})
		}
	})
}

// maxPieces bounds what is kept apart of one hold; the rest is unknown.
const maxPieces = 64

// ended takes the end of a call that releases a lock, or of what is known of it.
func (hd *held) ended(k *wake) {
	h := k.hold
	if h == nil {
		return
	}
	k.hold, h.stack = nil, k.stack
	if len(hd.list)-hd.head >= maxSpans {
		hd.losses.settleFirst(maxSpans / 8)
		hd.settle(hd.losses.spans.settled)
	}
	if len(hd.list)-hd.head < maxSpans {
		hd.list = append(hd.list, h)
	}
	hd.longest.add(h)
}

func (hd *held) hold() *hold {
	n := len(hd.free) - 1
	if n < 0 {
		return new(hold)
	}
	h := hd.free[n]
	hd.free = hd.free[:n]
	*h = hold{pieces: h.pieces[:0], samples: h.samples[:0]}
	return h
}

// settle counts the holds that ended before a time: no later gap begins earlier. Releases
// that threads are about to call for must have been seen, too.
func (hd *held) settle(before tracefs.Time) {
	for hd.head < len(hd.list) && (hd.list[hd.head].to < before-hd.activity.takes() || before > hd.losses.End) {
		h := hd.list[hd.head]
		l := h.lock.find()
		if l.holds == nil {
			l.holds = new(holdSums)
		}
		l.holds.add(h, &hd.losses.Gaps)
		hd.log.held(h, &hd.losses.Gaps)
		if !h.kept {
			hd.free = append(hd.free, h)
		}
		hd.list[hd.head] = nil
		hd.head++
	}
	if hd.head == len(hd.list) {
		hd.list, hd.head = hd.list[:0], 0
	} else if hd.head > len(hd.list)/2 {
		n := copy(hd.list, hd.list[hd.head:])
		clear(hd.list[n:])
		hd.list, hd.head = hd.list[:n], 0
	}
}

// certain reports whether a hold is certain in spite of gaps, and whether its earliest
// beginning is.
func (h *hold) certain(g *lost.Gaps) (sure, from bool) {
	core := min(h.proof, h.to)
	if h.first < h.to {
		core = min(core, h.first)
	}
	if _, _, lost := g.Within(core, h.to); lost {
		return false, false
	}
	if h.noFrom {
		return true, false
	}
	_, _, lost := g.Within(min(core, h.fromProof), h.to)
	return true, !lost
}

// queued returns the first thread that waits for a lock since it was released last, nil if
// there is none, and counts all that wait. The last release is none that is unheard of.
func (s *site) queued(k *wake, l *lock, unheard tracefs.Time, count *int32) (first *wait) {
	since := max(l.woken, s.unsure, unheard)
	if k.th.proc.find().tgid == tracefs.NoTID {
		since = max(since, s.any)
	}
	for _, w := range s.waiters {
		if w.th == k.th || w.lock.find() != l {
			continue
		}
		*count++
		if first == nil && w.began > since && w.moves == 0 {
			first = w
		}
	}
	return first
}

// wakeSeen notes a call that may have released the lock at a site.
func (s *site) wakeSeen(k *wake, l *lock) {
	s.any = max(s.any, k.at)
	if k.th.proc.find().tgid == tracefs.NoTID {
		s.unsure = max(s.unsure, k.at)
	}
	if l != nil {
		l.woken = max(l.woken, k.at)
	}
}
