package futex

import (
	"cmp"
	"slices"

	"ustack/render/lost"
	"ustack/tracefs"
	"ustack/tracefs/sched"
)

// realTime is the first priority that is not of real time (MAX_RT_PRIO, as sched.Event has
// it): only a thread of real time keeps one of lower priority from running at all.
const realTime = 100

// Inversion is how long a thread waited for a lock whose owner, of lower priority, could have
// run and did not, as a third thread of a priority between these ran on the owner's CPU.
type Inversion struct {
	Lock                  *Lock
	Waiter, Owner, Middle Prioritized
	Time                  tracefs.Time
	Waits                 int64
}

// Prioritized is a thread with its priority, see sched.Event.
type Prioritized struct {
	TID  int32
	Comm string
	Prio int32
}

// ranked is a thread with its priority.
type ranked struct{ tid, prio int32 }

// inversionKey is which threads an inversion is of.
type inversionKey struct{ waiter, owner, middle ranked }

// inversion is a part of a wait. It rests on call, as a piece, and on what was seen before
// the wait if it is early.
type inversion struct {
	inversionKey
	time  tracefs.Time
	early bool
	call  *wake
}

// keptOff is a time in which a thread could run and did not, as one of real time with a
// higher priority ran on the CPU on which it was last, by what was seen since proof.
type keptOff struct {
	off, by         ranked
	from, to, proof tracefs.Time
}

// priorities knows who kept whom off a CPU.
//
// Invariants:
//   - past has what has ended, in order of the end, as a ring of no more than maxKeptOff.
//   - A CPU's list is empty if no thread of real time runs there, and no longer than
//     maxOffOfCPU; all in it began when that one came, or later.
type priorities struct {
	any  bool // thread of real time was seen
	past []keptOff
	next int
	cpus []realTimeCPU

	activity *activity
}

// realTimeCPU is a CPU with the thread of real time that runs on it, none if tid is 0.
type realTimeCPU struct {
	ranked
	off []keptOff
}

const (
	maxKeptOff  = 1 << 10
	maxOffOfCPU = 1 << 5
)

// cpu returns a CPU's entry, nil if it can have none.
func (ps *priorities) cpu(cpu int32) *realTimeCPU {
	if cpu < 0 || cpu >= lost.MaxCPU {
		return nil
	}
	for int(cpu) >= len(ps.cpus) {
		ps.cpus = append(ps.cpus, realTimeCPU{})
	}
	return &ps.cpus[cpu]
}

// ended keeps a time that has ended.
func (ps *priorities) ended(x keptOff, t tracefs.Time) {
	if x.to = t; x.to <= x.from {
		return
	}
	if len(ps.past) < maxKeptOff {
		ps.past = append(ps.past, x)
		return
	}
	ps.past[ps.next] = x
	ps.next = (ps.next + 1) % maxKeptOff
}

// since passes what ended after a time, the last one first.
func (ps *priorities) since(t tracefs.Time, f func(x *keptOff)) {
	n := len(ps.past)
	for i := range n {
		x := &ps.past[(ps.next+n-1-i)%n]
		if x.to <= t {
			return
		}
		f(x)
	}
}

// comes notes that a thread runs: it is kept off no longer.
func (c *realTimeCPU) comes(ps *priorities, tid int32, t tracefs.Time) {
	for i := range c.off {
		if c.off[i].off.tid == tid {
			ps.ended(c.off[i], t)
			c.off = slices.Delete(c.off, i, i+1)
			return
		}
	}
}

// leaves notes that the thread of real time leaves its CPU, and returns who is still kept off.
// If another thread was there, a switch was not seen, and nothing is known.
func (c *realTimeCPU) leaves(ps *priorities, tid int32, t tracefs.Time) []keptOff {
	left := c.off
	if c.tid != tid {
		left = left[:0]
	}
	for _, x := range left {
		ps.ended(x, t)
	}
	c.ranked, c.off = ranked{}, c.off[:0]
	return left
}

// keep notes that a thread can run and does not since a time. That it was on this CPU last was
// seen since proof.
func (c *realTimeCPU) keep(x ranked, t, proof tracefs.Time) {
	if c.prio < x.prio && c.tid != x.tid && len(c.off) < maxOffOfCPU {
		c.off = append(c.off, keptOff{x, c.ranked, t, 0, proof})
	}
}

// priority notes the priority of a thread, which others may have raised since.
func (tl *timeline) priority(prio int32, t tracefs.Time) {
	if tl != nil && prio != sched.NoPrio && (prio != tl.prio || tl.prioFrom == 0) {
		tl.prio, tl.prioFrom = prio, t
	}
}

// switched takes a switch, before activity does. It reports whether the next thread keeps others
// off its CPU.
func (ps *priorities) switched(prev int32, e *sched.Event, cpu int32, t tracefs.Time) bool {
	a := ps.activity
	if ps.any = ps.any || e.Prio < realTime; !ps.any || !a.whole {
		return false
	}
	before := e.PrevPrio()
	if prev > 0 {
		a.line(prev).priority(before, t)
	}
	if e.TID > 0 {
		tl := a.line(e.TID)
		tl.priority(e.Prio, t)
		if c := ps.cpu(tl.cpu); c != nil && tl.cpu != cpu {
			c.comes(ps, e.TID, t)
		}
	}
	c := ps.cpu(cpu)
	if c == nil {
		return false
	}
	off := c.leaves(ps, prev, t)
	if e.TID <= 0 || e.Prio >= realTime {
		return false
	}
	c.ranked = ranked{e.TID, e.Prio}
	for _, x := range off { // each goes to a place that has been read
		if x.off.tid != e.TID {
			c.keep(x.off, t, x.proof)
		}
	}
	if prev > 0 && e.State == 'R' && before != sched.NoPrio && a.tasks.threadOf(prev) != nil {
		c.keep(ranked{prev, before}, t, t)
	}
	return len(c.off) > 0
}

// readied takes the wakeup of a thread, before activity does.
func (ps *priorities) readied(e *sched.Event, t tracefs.Time) {
	a := ps.activity
	if !ps.any || !a.whole || e.Prio == sched.NoPrio {
		return
	}
	tl := a.line(e.TID)
	tl.priority(e.Prio, t)
	if tl == nil || !tl.blocked() || a.tasks.threadOf(e.TID) == nil {
		return
	}
	if c := ps.cpu(tl.cpu); c != nil && c.tid != 0 {
		c.keep(ranked{e.TID, e.Prio}, t, min(tl.list[len(tl.list)-1].from, t))
	}
}

// inverted finds the inversions of a wait.
func (sp *splits) inverted(w *wait, v *division, terms []tenure) {
	tl := sp.activity.known(w.th.tid)
	if !sp.activity.priorities.any || tl == nil || tl.prioFrom == 0 || tl.prio >= realTime {
		return
	}
	sp.activity.priorities.since(v.from, func(x *keptOff) {
		if tl.prio >= x.by.prio || x.by.prio >= x.off.prio || x.by.tid == w.th.tid {
			return
		}
		key := inversionKey{ranked{w.th.tid, tl.prio}, x.off, x.by}
		for i := range terms {
			one := &terms[i]
			if one.tid != x.off.tid {
				continue
			}
			from, to := max(one.from, x.from, tl.prioFrom), min(one.to, x.to)
			sp.activity.during(one.tid, from, to, func(m *moment, _, d tracefs.Time) {
				if m.cause != causeRunnable {
					return
				}
				proof := min(m.proof, one.proof, x.from, x.proof)
				v.inversionProof = min(v.inversionProof, proof)
				v.addInversion(inversion{key, d, proof < v.from, one.found()})
			})
		}
	})
}

// maxInversions bounds those of one wait.
const maxInversions = 1 << 6

func (d *division) addInversion(x inversion) {
	for i := range d.inversions {
		if y := &d.inversions[i]; y.inversionKey == x.inversionKey && y.early == x.early && y.call == x.call {
			y.time += x.time
			return
		}
	}
	if len(d.inversions) < maxInversions {
		d.inversions = append(d.inversions, x)
	}
}

// invert counts the inversions of a wait that are certain in spite of gaps.
func (s *spent) invert(a *activity, d *division, l *lock, g *Gaps) {
	if len(d.inversions) == 0 {
		return
	}
	if _, _, lost := g.Within(d.from, d.to); lost || !d.proven(l) {
		return
	}
	_, _, late := g.Within(min(d.inversionProof, d.from), d.to)
	for i := range d.inversions {
		x := &d.inversions[i]
		if x.early && late || !x.call.sureOwner(a) {
			continue
		}
		first := !slices.ContainsFunc(d.inversions[:i], func(y inversion) bool { return y.inversionKey == x.inversionKey })
		one := Tally{Time: x.time}
		if first {
			one.Count = 1
		}
		s.inversions.add(x.inversionKey, one)
	}
}

// inversionsOf adds the inversions at a row to the report.
func (u *underway) inversionsOf(r *Report, l *Lock, s *spent) {
	who := func(x ranked) Prioritized { return Prioritized{x.tid, u.rp.tasks.commOfTID(x.tid), x.prio} }
	for i := range s.inversions.list {
		p := &s.inversions.list[i]
		r.Inversions = append(r.Inversions, Inversion{l, who(p.key.waiter), who(p.key.owner), who(p.key.middle), p.Time, p.Count})
	}
}

func sortInversions(list []Inversion) {
	slices.SortStableFunc(list, func(x, y Inversion) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Lock.born, y.Lock.born), cmp.Compare(x.Waiter.TID, y.Waiter.TID),
			cmp.Compare(x.Owner.TID, y.Owner.TID), cmp.Compare(x.Middle.TID, y.Middle.TID))
	})
}
