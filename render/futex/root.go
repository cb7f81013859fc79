package futex

import (
	"slices"

	"ustack/tracefs"
)

// Root is what a thread did that others waited for, and that did not itself wait for a
// lock meanwhile: the owner of the lock, or who owned the lock that the owner waited for,
// and so on.
type Root struct {
	TID  int32
	Comm string
	// Did is what it did: "ran", "runnable" or "blocked", and On on what, if it was
	// blocked.
	Did string
	On  BlockedOn
	// Stack is where it went off its CPU, nil if it is not in the trace or it ran.
	Stack *Stack
	// Chained is how much of Time it was not the owner of the lock.
	Time, Chained tracefs.Time
}

// rootKey is what a root does where.
type rootKey struct {
	tid, cause, stack int32
	deep              bool
}

// rootPiece is how long one was the root of a wait.
type rootPiece struct {
	rootPieceKey
	time tracefs.Time
}

// rootPieceKey is what a root did. It rests on call, as a piece, and on via if it is deep.
type rootPieceKey struct {
	rootKey
	early bool
	locks int32 // the chain from the lock on, without owners
	call  *wake
	via   *ground
}

// rootSpan is a time in which the root of a thread's wait is known. It rests on what was
// seen since proof, on call, as a piece, and on via if it is deep.
type rootSpan struct {
	from, to, proof tracefs.Time
	rootKey
	// path is the chain from the owner of the lock on, see links; let is the call by which
	// the root released what it was waited for.
	path      int32
	let, call *wake
	via       *ground
}

// Bounds of memory. Roots beyond them are unknown.
const (
	spansOfLine  = 1 << 8
	maxRootSpans = 1 << 16
)

// roots passes who is at the end of the chain from a thread in a time.
func (a *activity) roots(tid int32, from, to tracefs.Time, add func(s rootSpan)) {
	a.during(tid, from, to, func(m *moment, begin, d tracefs.Time) {
		switch {
		case m.cause == causeHandOver:
		case !a.waitsForFutex(m.cause):
			add(rootSpan{from: begin, to: begin + d, proof: m.proof, rootKey: rootKey{tid: tid, cause: m.cause, stack: m.stack}})
		default:
			cause := m.cause
			a.lines[tid].rootsOfWaits(begin, begin+d, min(m.proof, begin), func(s rootSpan) {
				s.path = a.links.number(link{tid, cause, s.path})
				add(s)
			})
		}
	})
}

// rootsOfWaits passes the roots of what a thread has waited for.
func (tl *timeline) rootsOfWaits(from, to, proof tracefs.Time, add func(s rootSpan)) {
	at, _ := slices.BinarySearchFunc(tl.chain, from, func(s rootSpan, t tracefs.Time) int {
		if s.to <= t {
			return -1
		}
		return 1
	})
	for ; at < len(tl.chain) && tl.chain[at].from < to; at++ {
		s := tl.chain[at]
		s.from, s.to, s.proof, s.deep = max(s.from, from), min(s.to, to), min(s.proof, proof), true
		if s.from < s.to {
			add(s)
		}
	}
}

// waitsForFutex reports whether a cause is a wait for a futex.
func (a *activity) waitsForFutex(cause int32) bool {
	return cause == causeFutex || cause >= firstCause && a.causes.blockers[cause-firstCause].proc != nil
}

// chained keeps the roots of a wait that has ended: others may have waited for its
// thread.
func (a *activity) chained(tl *timeline, l *lock, list []rootSpan) {
	if a.open <= 1 { // none waits but the thread itself
		a.unchain(tl)
		return
	}
	if len(tl.chain)+len(list) > spansOfLine {
		a.unchain(tl)
	}
	if a.chains+len(list) > maxRootSpans {
		for _, tl := range a.lines {
			a.unchain(tl)
		}
	}
	if len(list) > spansOfLine || len(tl.chain) > 0 && len(list) > 0 && list[0].from < tl.chain[len(tl.chain)-1].to {
		return
	}
	var via *ground
	for _, s := range list {
		if s.path == tooMany {
			continue
		}
		if via == nil || via.call != s.call || via.next != s.via {
			via = &ground{l, s.call, s.via}
		}
		s.call, s.via = nil, via
		tl.chain = append(tl.chain, s)
		a.chains++
	}
}

func (a *activity) unchain(tl *timeline) {
	a.chains -= len(tl.chain)
	clear(tl.chain)
	tl.chain = tl.chain[:0]
}

// root finds the roots of a wait, and keeps them for those who waited for its thread.
func (sp *splits) root(w *wait, l *lock, v *division, terms []tenure) {
	sp.spans = sp.spans[:0]
	v.rootProof = v.from
	for i := range terms {
		one := &terms[i]
		sp.activity.roots(one.tid, one.from, one.to, func(s rootSpan) {
			if s.tid == w.th.tid {
				return
			}
			if s.path == 0 {
				s.let = one.call
			}
			early := min(s.proof, one.proof) < v.from
			s.proof, s.call = min(s.proof, one.proof, v.from), one.found()
			v.rootProof = min(v.rootProof, s.proof)
			v.addRoot(rootPieceKey{s.rootKey, early, sp.activity.links.locks(s.path), s.call, s.via}, s.to-s.from)
			sp.spans = append(sp.spans, s)
		})
	}
	tl := sp.activity.lines[w.th.tid]
	if tl == nil || !v.proven(l) {
		return
	}
	sp.activity.chained(tl, l, sp.spans)
}

func (d *division) addRoot(key rootPieceKey, t tracefs.Time) {
	for i := range d.roots {
		if x := &d.roots[i]; x.rootPieceKey == key {
			x.time += t
			return
		}
	}
	d.roots = append(d.roots, rootPiece{key, t})
}

// rooted passes the roots that are certain in spite of gaps. What is chained must be so
// by locks that one thread holds at a time.
func (d *division) rooted(a *activity, l *lock, g *Gaps, s *spent) {
	if len(d.roots) == 0 {
		return
	}
	if _, _, lost := g.Within(d.from, d.to); lost || !d.proven(l) {
		return
	}
	_, _, late := g.Within(min(d.rootProof, d.from), d.to)
	counted := make([]int32, 0, 8)
	for i := range d.roots {
		x := &d.roots[i]
		if x.early && late || !x.call.sureOwner(a) || !x.via.hold(a) {
			continue
		}
		s.roots.add(x.rootKey, Tally{Count: 1, Time: x.time})
		if !x.deep {
			continue
		}
		one := Tally{Time: x.time}
		if !slices.Contains(counted, x.locks) {
			one.Count, counted = 1, append(counted, x.locks) // of the waits
		}
		s.chains.add(chainKey{x.locks, x.tid, x.cause, x.stack}, one)
	}
}

// rootsOf lists roots, the longest first.
func (u *underway) rootsOf(s *spent, named func(cause int32, t tracefs.Time) BlockedOn) (out []Root) {
	type where struct{ tid, cause, stack int32 }
	at := make(map[where]int)
	for _, p := range s.roots.list {
		k := where{p.key.tid, p.key.cause, p.key.stack}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, u.root(k.tid, k.cause, k.stack, named))
		}
		out[i].Time += p.Time
		if p.key.deep {
			out[i].Chained += p.Time
		}
	}
	sortRoots(out)
	return out
}
