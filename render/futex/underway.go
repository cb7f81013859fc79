package futex

import (
	"container/heap"
	"slices"

	"ustack/tracefs"
)

// underway has a report's numbers of calls that have not ended, besides the
// counted ones. The parts of the analysis stay as they are: it may go on.
type underway struct {
	rp      *reporter
	end     tracefs.Time
	gaps    *Gaps // with gaps that have not ended
	hidden  hidden
	broken  tracefs.Time
	threads map[*thread]tracefs.Time // what loss can hide
	locks   map[*lock]*pending
	spent   map[*lock]*spent // on waits that gaps may still reach
	holds   map[*lock]*holdSums
}

// pending are a lock's waits that have not ended, how long they have lasted, and
// how much of that, and of other waits, is in doubt.
type pending struct {
	waits     []*wait
	time      tracefs.Time
	most      tracefs.Time // of one of them
	openDoubt tracefs.Time
	doubt     tracefs.Time
}

// underway finds the calls that have not ended.
func (rp *reporter) underway() *underway {
	u := &underway{rp: rp, end: max(rp.losses.End, rp.losses.until), gaps: &rp.losses.Gaps, hidden: rp.losses.hidden.clone(), broken: rp.losses.broken,
		threads: make(map[*thread]tracefs.Time), locks: make(map[*lock]*pending), spent: make(map[*lock]*spent), holds: make(map[*lock]*holdSums)}
	for from := range rp.losses.Open() {
		if u.gaps == &rp.losses.Gaps {
			u.gaps = rp.losses.Gaps.Clone()
		}
		u.gaps.Add(from, rp.losses.End)
	}
	for i := range rp.losses.spans.list[rp.losses.spans.head:] {
		u.assess(&rp.losses.spans.list[rp.losses.spans.head+i])
	}
	for _, th := range rp.tasks.inOrder() {
		u.thread(th)
	}
	u.settleSplits()
	u.settleHolds()
	return u
}

// of returns the pending waits at a lock.
func (u *underway) of(l *lock) *pending {
	l = l.find()
	p := u.locks[l]
	if p == nil {
		p = new(pending)
		u.locks[l] = p
	}
	return p
}

// hide notes how long a thread can have waited unseen, see losses.hide.
func (u *underway) hide(th *thread, d, counted tracefs.Time) {
	d = max(d, counted, 0)
	u.threads[th] += d
	u.hidden.add(d - counted)
}

// assess returns the certain part of a span that a gap may still reach.
func (u *underway) assess(s *span) {
	j := assess(u.gaps, s)
	switch {
	case j.broken:
		u.threads[s.th] += j.hide
		u.broken += j.hide
	case j.hides:
		u.hide(s.th, j.hide, j.counted)
		if j.doubt && s.lock != nil {
			u.of(s.lock).doubt += s.time
		}
	}
}

// thread takes a wait that has not ended, and the time that may be hidden
// before the first and after the last call of a thread.
func (u *underway) thread(th *thread) {
	rp := u.rp
	if th.first < 0 {
		return
	}
	if _, last, ok := u.gaps.Within(rp.losses.Start, th.first); ok {
		u.hide(th, last-rp.losses.Start, 0)
	}
	var counted tracefs.Time
	if w := th.wait; th.in && w != nil && w.lock != nil && !rp.calls.noReturns() {
		p := u.of(w.lock)
		p.waits = append(p.waits, w)
		counted = max(u.end-w.since, 0)
		p.time += counted
		p.most = max(p.most, w.acc+counted)
		if _, _, ok := u.gaps.Within(th.since, u.end); ok {
			p.openDoubt += counted
		}
	}
	to := u.end
	if th.dead {
		to = max(th.diedAt, th.last)
	}
	switch first, last, ok := u.gaps.Within(th.last, to); {
	case !ok:
	case th.in:
		u.hide(th, to-th.since, counted)
	case th.dead:
		u.hide(th, last-first, 0)
	default:
		u.hide(th, to-first, 0)
	}
}

// at returns the pending waits at a lock, without making room for them.
func (u *underway) at(l *lock) *pending {
	if p := u.locks[l]; p != nil {
		return p
	}
	return new(pending)
}

func (h *hidden) clone() hidden { return hidden{all: h.all, most: slices.Clone(h.most)} }

// add adds a part.
func (h *hidden) add(d tracefs.Time) {
	h.all += d
	if len(h.most) < maxHidden {
		heap.Push(h, d)
	} else if d > h.most[0] {
		h.most[0] = d
		heap.Fix(h, 0)
	}
}
