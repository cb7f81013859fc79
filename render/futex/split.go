package futex

import (
	"cmp"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
	"ustack/tracefs/syscalls"
)

// Split is what waits for a lock were spent on, by what the lock's owner did meanwhile.
// Its parts sum to the time of the waits, in the unit of the report: Ran, Runnable, the
// parts of Blocked, HandOver and Unknown.
type Split struct {
	// Ran is the time in which the owner ran, Runnable in which it could have, but was
	// not on a CPU.
	Ran, Runnable tracefs.Time
	// Blocked is the time in which the owner was blocked, On on what, the largest part
	// first.
	Blocked tracefs.Time
	On      []BlockedOn
	// HandOver is the time from a release that woke a thread until that thread
	// returned from its call.
	HandOver tracefs.Time
	// Unknown is the time of which the trace does not show the owner, or what it did,
	// or in which records were lost.
	Unknown tracefs.Time
	// Barged is how much of the time the owner was a thread that had taken the lock
	// without waiting, after the wait had begun. It is no part of the sum.
	Barged tracefs.Time
	// Roots are the threads at the ends of the chains of owners, the longest time first.
	// Their times and NoRoot, in which there is none that is certain, sum to the whole
	// without HandOver.
	Roots  []Root
	NoRoot tracefs.Time
}

// Whole is the time of the waits.
func (s *Split) Whole() tracefs.Time { return s.Ran + s.Runnable + s.Blocked + s.HandOver + s.Unknown }

// BlockedOn is a part of the time in which owners were blocked.
type BlockedOn struct {
	What BlockedKind
	// Lock is the futex, if that is What and it is in the report, else nil; Address is
	// where it is, 0 if unknown.
	Lock    *Lock
	Address uint64
	// Call is the system call, if that is What.
	Call string
	// At is a stack of where the thread went to sleep, if What is BlockedElsewhere or
	// BlockedIO and the trace has it; else nil. What differs in the innermost three frames
	// is another place.
	At *Stack
	// place sorts places.
	place int32
	Time  tracefs.Time
}

// BlockedKind is what a thread is blocked on.
type BlockedKind uint8

// What threads are blocked on.
const (
	// BlockedElsewhere is a sleep in a call that the trace does not have.
	BlockedElsewhere BlockedKind = iota
	// BlockedFutex is another futex.
	BlockedFutex
	// BlockedIO is the kernel's state D: I/O, or a lock of the kernel's.
	BlockedIO
	// BlockedStop is a stop by a signal or a debugger.
	BlockedStop
	// BlockedOutside is state D in no system call: a page fault, or what is left to do
	// when a call has returned.
	BlockedOutside
	// BlockedSleep is a call whose purpose is to sleep, BlockedCall any other.
	BlockedSleep
	BlockedCall
)

var blockedNames = [...]string{"unknown call", "futex", "I/O (state D)", "stopped", "outside calls", "sleep", "call"}

// String returns the word used in all outputs.
func (k BlockedKind) String() string { return blockedNames[k] }

// division is how one wait is split, as far as nothing was lost.
type division struct {
	from, to tracefs.Time
	// proof is when the oldest evidence was seen for the early pieces, of moments that
	// began before the wait.
	proof  tracefs.Time
	pieces []piece
	kept   bool // by a Wait
	// needs are processes that must prove to be the lock's.
	needs []*process
	// roots are who was waited for in the end, by evidence since rootProof. steps are the
	// same in their order, of a wait that is kept.
	roots     []rootPiece
	rootProof tracefs.Time
	steps     []rootSpan
	handed    handed
	// inversions rest on what was seen since inversionProof.
	inversions     []inversion
	inversionProof tracefs.Time
}

// piece is how long a cause lasted.
type piece struct {
	pieceKey
	time tracefs.Time
}

// pieceKey is what was done. call is the one that an owner made that had not waited for the
// lock, nil for others, see wake.sureOwner.
type pieceKey struct {
	cause         int32
	early, barged bool
	call          *wake
}

func (d *division) add(key pieceKey, t tracefs.Time) {
	for i := range d.pieces {
		if x := &d.pieces[i]; x.pieceKey == key {
			x.time += t
			return
		}
	}
	d.pieces = append(d.pieces, piece{key, t})
}

// certain passes the pieces that are certain in spite of gaps, and how much of them was
// barged.
func (d *division) certain(a *activity, l *lock, g *Gaps, add func(cause int32, t tracefs.Time)) (barged tracefs.Time) {
	if _, _, lost := g.Within(d.from, d.to); lost || !d.proven(l) {
		return 0
	}
	_, _, late := g.Within(min(d.proof, d.from), d.to)
	for i := range d.pieces {
		x := &d.pieces[i]
		if x.early && late || !x.call.sureOwner(a) {
			continue
		}
		if add(x.cause, x.time); x.barged {
			barged += x.time
		}
	}
	return barged
}

// proven reports whether all that a division rests on is proven to be of one lock.
func (d *division) proven(l *lock) bool {
	return !slices.ContainsFunc(d.needs, func(p *process) bool { return l.proc == nil || p.find() != l.proc.find() })
}

// spent adds up causes.
type spent struct {
	fixed  [firstCause]tracefs.Time
	more   parts[int32]
	barged tracefs.Time
	roots  parts[rootKey]
	chains parts[chainKey]

	inversions parts[inversionKey]
	convoys    *convoys // nil if there are none
}

func (s *spent) add(cause int32, t tracefs.Time) {
	if cause < firstCause {
		s.fixed[cause] += t
		return
	}
	s.more.add(cause, Tally{Count: 1, Time: t})
}

func (s *spent) merge(o *spent) {
	for i, t := range o.fixed {
		s.fixed[i] += t
	}
	s.more.merge(&o.more)
	s.barged += o.barged
	s.roots.merge(&o.roots)
	s.chains.merge(&o.chains)
	s.inversions.merge(&o.inversions)
	if o.convoys != nil {
		if s.convoys == nil {
			s.convoys = new(convoys)
		}
		s.convoys.merge(o.convoys)
	}
}

// pendingSplit is a division that a gap may still reach.
type pendingSplit struct {
	lock *lock
	*division
}

// splits knows how waits for locks are split.
//
// Invariants:
//   - A wait that may still be reached by a gap is in list after head, once; there are
//     no more than maxSpans.
//   - What is unproven was in list before; there are no more than maxUnproven.
//   - No piece is negative, and the pieces of a division are not longer than its wait.
//   - A division that may be used again is no Wait's.
type splits struct {
	list []pendingSplit
	head int
	// unproven are waits that no gap can reach any more.
	unproven []pendingSplit
	free     []*division
	spans    []rootSpan // scratch

	losses   *losses
	activity *activity
	holders  *holders
}

// split splits a wait that has ended, of time d. It returns nil if there is nothing to
// be said of it.
func (sp *splits) split(w *wait, l *lock, d, end tracefs.Time) *division {
	if d <= 0 || d < w.before+max(end-w.began, 0) {
		return nil // it did not sleep when it went on
	}
	v := sp.division()
	v.from, v.to, v.proof, v.inversionProof = w.began, end, w.began, w.began
	v.handed = w.handedBy(l)
	release := end
	if w.waker.sure {
		release = min(max(w.waker.at, w.began), end)
	}
	terms := sp.holders.tenures(w, l, release)
	v.needs = append(v.needs, sp.holders.needs...)
	for i := range terms {
		one := &terms[i]
		v.add(pieceKey{cause: causeHandOver}, one.handed)
		sp.activity.during(one.tid, one.from, one.to, func(m *moment, _, t tracefs.Time) {
			proof := min(m.proof, one.proof)
			if proof < v.from {
				v.proof = min(v.proof, proof)
			}
			v.add(pieceKey{m.cause, proof < v.from, one.barged, one.found()}, t)
		})
	}
	v.add(pieceKey{cause: causeHandOver}, end-release)
	sp.root(w, l, v, terms)
	sp.inverted(w, v, terms)
	v.pieces = slices.DeleteFunc(v.pieces, func(x piece) bool { return x.time == 0 })
	if len(v.pieces) == 0 {
		sp.free = append(sp.free, v)
		return nil
	}
	if len(sp.list)-sp.head >= maxSpans {
		sp.losses.settleFirst(maxSpans / 8)
		sp.settle(sp.losses.spans.settled)
	}
	sp.list = append(sp.list, pendingSplit{l, v})
	return v
}

func (sp *splits) division() *division {
	n := len(sp.free) - 1
	if n < 0 {
		return new(division)
	}
	v := sp.free[n]
	sp.free = sp.free[:n]
	clear(v.needs)
	clear(v.pieces)
	clear(v.roots)
	clear(v.inversions)
	*v = division{pieces: v.pieces[:0], needs: v.needs[:0], roots: v.roots[:0], inversions: v.inversions[:0]}
	return v
}

// settle counts the waits that ended before a time: no later gap begins earlier.
func (sp *splits) settle(before tracefs.Time) {
	for sp.head < len(sp.list) && (sp.list[sp.head].to < before-sp.activity.takes() || before > sp.losses.End) {
		p := &sp.list[sp.head]
		if before <= sp.losses.End && sp.mayBeHeard(p, before) {
			break
		}
		switch l := p.lock.find(); {
		case p.proven(l):
			sp.count(p)
		case len(sp.unproven) < maxUnproven:
			sp.unproven = append(sp.unproven, *p)
		}
		*p = pendingSplit{}
		sp.head++
	}
	if sp.head == len(sp.list) {
		sp.list, sp.head = sp.list[:0], 0
	} else if sp.head > len(sp.list)/2 {
		n := copy(sp.list, sp.list[sp.head:])
		clear(sp.list[n:])
		sp.list, sp.head = sp.list[:n], 0
	}
}

// hears is how many times takes a wait is kept until all threads have been heard that may
// have owned its lock: until then it is not sure who did.
const hears = 5000

// mayBeHeard reports whether more of a wait can become known before long.
func (sp *splits) mayBeHeard(p *pendingSplit, now tracefs.Time) bool {
	if now-p.to > hears*sp.activity.takes() || len(sp.list)-sp.head >= maxSpans/2 {
		return false
	}
	return slices.ContainsFunc(p.pieces, func(x piece) bool { return x.call != nil && x.call.unheard && sp.activity.mayBeUnheard(x.call, true) })
}

// maxUnproven bounds the waits whose calls are not proven to be of one process. Beyond
// it they are unknown.
const maxUnproven = 1 << 12

// count adds up a wait that no gap can reach any more.
func (sp *splits) count(p *pendingSplit) {
	l := p.lock.find()
	if l.spent == nil {
		l.spent = new(spent)
	}
	l.spent.barged += p.certain(sp.activity, l, &sp.losses.Gaps, l.spent.add)
	l.spent.settle(sp.activity, p.division, l, &sp.losses.Gaps)
	if !p.kept {
		sp.free = append(sp.free, p.division)
	}
}

// settle counts what a wait shows beside its pieces, as far as it is certain in spite of gaps.
func (s *spent) settle(a *activity, d *division, l *lock, g *Gaps) {
	d.rooted(a, l, g, s)
	s.pass(d, l, g)
	s.invert(a, d, l, g)
}

// splitOf returns how waits are split that took a time, as far as that is known.
func (u *underway) splitOf(s *spent, whole tracefs.Time, byLock map[*lock]*Lock) *Split {
	out := &Split{Ran: s.fixed[causeRuns], Runnable: s.fixed[causeRunnable], HandOver: s.fixed[causeHandOver], Barged: s.barged}
	on := func(b BlockedOn) {
		out.Blocked += b.Time
		out.On = addBlocked(out.On, b)
	}
	named := u.namer(byLock)
	for _, cause := range []int32{causeDisk, causeStopped, causeCall, causeFutex, causeOutside} {
		if t := s.fixed[cause]; t > 0 {
			on(named(cause, t))
		}
	}
	for i := range s.more.list {
		on(named(s.more.list[i].key, s.more.list[i].Time))
	}
	if t := s.more.rest.Time; t > 0 {
		on(BlockedOn{Time: t})
	}
	sortBlocked(out.On)
	out.Unknown = whole - out.Ran - out.Runnable - out.Blocked - out.HandOver
	out.Roots, out.NoRoot = u.rootsOf(s, named), whole-out.HandOver
	for i := range out.Roots {
		out.NoRoot -= out.Roots[i].Time
	}
	return out
}

// addBlocked adds a time to a list of what threads were blocked on.
func addBlocked(list []BlockedOn, b BlockedOn) []BlockedOn {
	i := slices.IndexFunc(list, func(x BlockedOn) bool {
		return x.What == b.What && x.Lock == b.Lock && x.Address == b.Address && x.Call == b.Call && x.At == b.At
	})
	if i < 0 {
		return append(list, b)
	}
	list[i].Time += b.Time
	return list
}

func sortBlocked(list []BlockedOn) {
	sorting.Func(list, func(x, y BlockedOn) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.What, y.What), cmp.Compare(x.Address, y.Address), cmp.Compare(x.Call, y.Call), cmp.Compare(x.place, y.place))
	})
}

// blockedOn says what a cause is.
func (u *underway) blockedOn(cause int32, t tracefs.Time, names **syscalls.Numbers, byLock map[*lock]*Lock) BlockedOn {
	if cause < firstCause {
		what := map[int32]BlockedKind{causeDisk: BlockedIO, causeStopped: BlockedStop, causeCall: BlockedElsewhere, causeFutex: BlockedFutex, causeOutside: BlockedOutside}
		return BlockedOn{What: what[cause], Time: t}
	}
	b := &u.rp.activity.causes.blockers[cause-firstCause]
	if b.at > 0 {
		one := u.blockedOn(b.cause, t, names, byLock)
		one.At, one.place = u.rp.stacks.Get(b.at-1), b.at
		return one
	}
	if b.in != syscalls.NoTable {
		if *names == nil {
			*names = syscalls.NewNumbers()
		}
		in := u.rp.activity.causes.numbering(b)
		return b.blockedOn((*names).Name(in, b.call), t)
	}
	one := BlockedOn{What: BlockedFutex, Address: b.key.addr, Time: t}
	if l := b.proc.find().locks.get(b.key); l != nil {
		one.Lock = byLock[l.find()]
	}
	return one
}

// blockedOn names the call in which a thread was blocked.
func (b *blocker) blockedOn(name string, t tracefs.Time) BlockedOn {
	one := BlockedOn{What: BlockedCall, Call: name, Time: t}
	switch one.Call {
	case "":
		one.What = BlockedElsewhere
	case "nanosleep", "clock_nanosleep", "clock_nanosleep_time64":
		one.What = BlockedSleep
	}
	return one
}

// splitWait returns how a single wait is split.
func (u *underway) splitWait(w *Wait, byLock map[*lock]*Lock) *Split {
	var s spent
	if w.division != nil && u.certain() {
		s.barged = w.division.certain(u.rp.activity, w.lock.find(), u.gaps, s.add)
		w.division.rooted(u.rp.activity, w.lock.find(), u.gaps, &s)
	}
	return u.splitOf(&s, w.Time, byLock)
}

// splitRows splits the waits of rows that have ended.
func (u *underway) splitRows(r *Report, byLock map[*lock]*Lock) {
	named := u.namer(byLock)
	for _, out := range byLock {
		if out.Split != nil || !out.Kind.exclusive() {
			continue
		}
		var s spent
		for _, l := range out.parts {
			if l.spent != nil && u.certain() {
				s.merge(l.spent)
			}
			if more := u.spent[l]; more != nil && u.certain() {
				s.merge(more)
			}
		}
		out.Split, out.Convoys = u.splitOf(&s, out.Time, byLock), u.convoysOf(&s)
		if out.wanted {
			u.chains(r, out, &s, named)
			u.inversionsOf(r, out, &s)
		}
	}
}

// certain reports whether all times are known at which records were lost.
func (u *underway) certain() bool { return u.rp.losses.refused == 0 && !u.rp.losses.spans.late }

// settleSplits adds up the waits that gaps may still reach, as of now.
func (u *underway) settleSplits() {
	sp := u.rp.splits
	for _, list := range [][]pendingSplit{sp.unproven, sp.list[sp.head:]} {
		for _, p := range list {
			l := p.lock.find()
			if u.spent[l] == nil {
				u.spent[l] = new(spent)
			}
			u.spent[l].barged += p.certain(sp.activity, l, u.gaps, u.spent[l].add)
			u.spent[l].settle(sp.activity, p.division, l, u.gaps)
		}
	}
}

// noteActivity says what the trace lacks for splitting waits.
func (rp *reporter) noteActivity(locks []*Lock, note func(string, ...any)) {
	const what = "what the owners of locks did meanwhile is unknown: "
	switch {
	case !slices.ContainsFunc(locks, func(l *Lock) bool { return l.Split != nil && l.Time > 0 }):
	case !rp.activity.switches:
		note(what + "enable the events sched_switch and sched_waking")
	case !rp.activity.whole:
		note(what + "the event sched_switch has a filter that leaves out threads which could go on")
	case !rp.activity.wakings:
		note("how long the owners of locks were blocked is unknown: enable the event sched_waking")
	}
	if rp.activity.forgot > 0 {
		note("%d changes of what threads did were too many to keep, and count as unknown", rp.activity.forgot)
	}
}
