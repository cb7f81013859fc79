package futex

import (
	"cmp"
	"slices"

	"ustack/render/lost"
	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// Holds are the contended holds of a lock: the times in which a thread owned it that had
// waited for it, or that others waited for when it released the lock. A trace does not show
// others. A hold begins when its thread is back from its wait; of one whose thread got the
// lock without waiting the beginning is not in the trace, and its length has bounds only.
type Holds struct {
	// Count is how many there are, Exact of how many the length is known. Total is of
	// these, with their quantiles.
	Count, Exact         int64
	Total, P50, P99, Max tracefs.Time
	// Low and High bound the time of all others together. Unbounded of them have no upper
	// bound: High lacks these.
	Low, High tracefs.Time
	Unbounded int64
	// Lost are holds of which nothing is known, as records were lost. They are not
	// counted.
	Lost int64
	// Did is what the owners did in Total and Low.
	Did Doing
	// Stacks are where owners were when they did not run, the longest first, Released
	// where the holds ended, with what is sure of their time.
	Stacks   []*HoldStack
	Released []StackShare
	// Samples is how many samples there are of where owners ran in Total and Low, Sampled
	// where, the most first.
	Samples int64
	Sampled []Sampled
}

// Doing is what a thread did in a time. Its parts sum to that.
type Doing struct {
	Ran, Runnable, Blocked, Unknown tracefs.Time
	// On is on what it was blocked, the longest first.
	On []BlockedOn
}

// Whole is the time.
func (d *Doing) Whole() tracefs.Time { return d.Ran + d.Runnable + d.Blocked + d.Unknown }

// HoldStack is where an owner went off its CPU, and what it did then.
type HoldStack struct {
	Did   string // "runnable" or "blocked"
	On    BlockedOn
	Stack *Stack // nil if the trace has none
	Time  tracefs.Time
}

// Hold is a single hold, of the longest ones.
type Hold struct {
	TID  int32
	Comm string
	Lock *Lock
	// To is when it ended at the latest.
	To tracefs.Time
	// Low and High bound its length; High is -1 if it has no upper bound. Exact: it is
	// Low, and High is the same.
	Low, High tracefs.Time
	Exact     bool
	// Waited is set if the thread had waited for the lock. Waiters is how many others did
	// when it released it.
	Waited  bool
	Waiters int
	Did     Doing
	// Samples and Sampled are as in Holds.
	Samples int64
	Sampled []Sampled
	Stack   *Stack // of the release, nil if the trace has none
	// Line is where the release is in the text of the trace, FromLine where the return from
	// the wait before it is, counted from 1; 0 if unknown. They need Options.Calls.
	Line, FromLine int64
}

// holdSums are the holds of a lock that no gap can reach any more.
type holdSums struct {
	exact     tally.Durations
	bounded   int64
	low, high tracefs.Time
	unbounded int64
	lost      int64
	fixed     [firstCause]tracefs.Time
	more      parts[int32]
	stacks    parts[heldKey]
	released  parts[int32]
	sampled   sampledSums
}

// add adds a hold.
func (s *holdSums) add(h *hold, g *lost.Gaps) {
	counted, from := h.counts(g)
	switch {
	case !counted: // with a gap before it, the length of an exact one is not known
		s.lost++
		return
	case h.exact:
		s.exact.Add(h.high())
	default:
		s.bounded++
		s.low += h.low()
		if from {
			s.high += h.high()
		} else {
			s.unbounded++
		}
	}
	s.released.add(h.stack, Tally{Count: 1, Time: h.low()})
	s.did(h)
}

// did adds what the owner did in a hold.
func (s *holdSums) did(h *hold) {
	for i := range h.pieces {
		s.piece(&h.pieces[i])
	}
	for _, x := range h.samples {
		s.sampled.add(x.stack, x.count)
	}
}

// piece adds what an owner did.
func (s *holdSums) piece(x *heldPiece) {
	t := Tally{Count: 1, Time: x.time}
	if x.cause < firstCause {
		s.fixed[x.cause] += x.time
	} else {
		s.more.add(x.cause, t)
	}
	if x.cause != causeRuns {
		s.stacks.add(x.heldKey, t)
	}
}

func (s *holdSums) merge(o *holdSums) {
	s.exact.Merge(&o.exact)
	s.bounded += o.bounded
	s.low += o.low
	s.high += o.high
	s.unbounded += o.unbounded
	s.lost += o.lost
	for i, t := range o.fixed {
		s.fixed[i] += t
	}
	s.more.merge(&o.more)
	s.stacks.merge(&o.stacks)
	s.released.merge(&o.released)
	s.sampled.merge(&o.sampled)
}

// mergeHolds adds the holds of another lock.
func (l *lock) mergeHolds(m *lock) {
	if m.holds == nil {
		return
	}
	if l.holds == nil {
		l.holds = new(holdSums)
	}
	l.holds.merge(m.holds)
	m.holds = nil
}

// settleHolds adds up the holds that gaps may still reach, as of now.
func (u *underway) settleHolds() {
	for _, h := range u.rp.held.list[u.rp.held.head:] {
		l := h.lock.find()
		if u.holds[l] == nil {
			u.holds[l] = new(holdSums)
		}
		u.holds[l].add(h, u.gaps)
	}
}

// holdsOf returns the holds of a row, nil if there are none, or nothing is certain.
func (u *underway) holdsOf(out *Lock, byLock map[*lock]*Lock) *Holds {
	if !out.Kind.exclusive() || !u.certain() {
		return nil
	}
	var s holdSums
	for _, l := range out.parts {
		if l.holds != nil {
			s.merge(l.holds)
		}
		if more := u.holds[l]; more != nil {
			s.merge(more)
		}
	}
	d := &s.exact
	if d.Count+s.bounded+s.lost == 0 {
		return nil
	}
	r := &Holds{Count: d.Count + s.bounded, Exact: d.Count, Total: d.Sum, P50: d.Quantile(0.5), P99: d.Quantile(0.99), Max: d.Max,
		Low: s.low, High: s.high, Unbounded: s.unbounded, Lost: s.lost}
	name := u.namer(byLock)
	r.Did = s.doing(r.Total+r.Low, name)
	r.Samples, r.Sampled = s.sampled.list(u.rp.stacks)
	for i := range s.stacks.list {
		p := &s.stacks.list[i]
		one := &HoldStack{Did: "blocked", Stack: u.rp.stacks.Get(p.key.stack), Time: p.Time}
		if p.key.cause == causeRunnable {
			one.Did = "runnable"
		} else {
			one.On = name(p.key.cause, 0)
		}
		r.Stacks = append(r.Stacks, one)
	}
	slices.SortFunc(r.Stacks, func(x, y *HoldStack) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Did, y.Did), compareOn(&x.On, &y.On))
	})
	released := make(map[int32]*Tally)
	for i := range s.released.list {
		released[s.released.list[i].key] = &s.released.list[i].Tally
	}
	r.Released = u.rp.shares(released)
	return r
}

// namer returns a function that names what threads were blocked on.
func (u *underway) namer(byLock map[*lock]*Lock) func(cause int32, t tracefs.Time) BlockedOn {
	var names *syscalls.Numbers
	return func(cause int32, t tracefs.Time) BlockedOn { return u.blockedOn(cause, t, &names, byLock) }
}

// doing returns what owners did in a time.
func (s *holdSums) doing(whole tracefs.Time, name func(int32, tracefs.Time) BlockedOn) Doing {
	d := Doing{Ran: s.fixed[causeRuns], Runnable: s.fixed[causeRunnable]}
	for cause, t := range s.fixed {
		if c := int32(cause); t > 0 && c != causeRuns && c != causeRunnable {
			d.blocked(name(c, t))
		}
	}
	for i := range s.more.list {
		d.blocked(name(s.more.list[i].key, s.more.list[i].Time))
	}
	if t := s.more.rest.Time; t > 0 {
		d.blocked(BlockedOn{Time: t})
	}
	sortBlocked(d.On)
	d.Unknown = whole - d.Ran - d.Runnable - d.Blocked
	return d
}

// blocked adds a time in which a thread was blocked.
func (d *Doing) blocked(b BlockedOn) {
	d.Blocked += b.Time
	d.On = addBlocked(d.On, b)
}

// longHolds lists the longest holds of locks that are wanted.
func (u *underway) longHolds(byLock map[*lock]*Lock) (out []*Hold) {
	if !u.certain() {
		return nil
	}
	name := u.namer(byLock)
	for _, h := range u.rp.held.longest {
		l := byLock[h.lock.find()]
		sure, from := h.certain(u.gaps)
		if l == nil || !l.wanted || !l.Kind.exclusive() || !sure || h.exact && !from {
			continue
		}
		one := &Hold{TID: h.tid, Comm: h.comm, Lock: l, To: h.to, Low: h.low(), High: h.high(), Exact: h.exact, Waited: h.waited,
			Waiters: int(h.waiters), Stack: u.rp.stacks.Get(h.stack)}
		if !from {
			one.High = -1
		}
		var s holdSums
		s.did(h)
		one.Did = s.doing(one.Low, name)
		one.Samples, one.Sampled = s.sampled.list(u.rp.stacks)
		out = append(out, one)
	}
	slices.SortFunc(out, func(x, y *Hold) int {
		return cmp.Or(cmp.Compare(y.Low, x.Low), cmp.Compare(x.To, y.To), cmp.Compare(x.TID, y.TID))
	})
	return out
}
