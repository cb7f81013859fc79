package futex

import (
	"cmp"
	"slices"

	"ustack/render/lost"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/sorting"
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
// higher priority ran on the CPU on which it was last, by what was seen since proof. In a
// CPU's list it has not ended; by is zero if the thread that runs has no such priority.
type keptOff struct {
	off, by         ranked
	from, to, proof tracefs.Time
}

// priorities knows who kept whom off a CPU.
//
// Invariants:
//   - past has what has ended, in order of the end, as a ring of no more than maxKeptOff.
//   - A CPU's list has threads that can run, do not, and ran on that CPU last, each once, and
//     no more than maxOffOfCPU.
type priorities struct {
	any  bool // thread of real time was seen
	past []keptOff
	next int
	cpus []queueCPU

	activity *activity
}

// queueCPU is a CPU with the thread that runs on it since a time, of which tid is 0 if it is
// idle or unknown, and those that were on it last and can run.
type queueCPU struct {
	ranked
	from tracefs.Time
	off  []keptOff
}

const (
	maxKeptOff  = 1 << 10
	maxOffOfCPU = 1 << 5
)

// cpu returns a CPU's entry, nil if it can have none.
func (ps *priorities) cpu(cpu int32) *queueCPU {
	if cpu < 0 || cpu >= lost.MaxCPU {
		return nil
	}
	for int(cpu) >= len(ps.cpus) {
		ps.cpus = append(ps.cpus, queueCPU{})
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
func (c *queueCPU) comes(ps *priorities, tid int32, t tracefs.Time) {
	for i := range c.off {
		if c.off[i].off.tid == tid {
			c.pause(ps, &c.off[i], t)
			c.off = slices.Delete(c.off, i, i+1)
			return
		}
	}
}

// pause ends the time for which the thread that runs keeps another one off.
func (c *queueCPU) pause(ps *priorities, x *keptOff, t tracefs.Time) {
	if x.by.tid != 0 {
		ps.ended(*x, t)
	}
	x.by = ranked{}
}

// leaves notes that a thread leaves its CPU. If another one was there, a switch was not seen,
// and nothing is known. On a CPU that was idle for some time none waited.
func (c *queueCPU) leaves(ps *priorities, tid int32, t tracefs.Time) {
	if c.tid != tid || tid == 0 && t > c.from {
		c.off = c.off[:0]
	}
	for i := range c.off {
		c.pause(ps, &c.off[i], t)
	}
	c.ranked = ranked{}
}

// runs notes that a thread runs, or with a tid of 0 that the CPU is idle.
func (c *queueCPU) runs(ps *priorities, x ranked, t tracefs.Time) {
	c.comes(ps, x.tid, t)
	c.ranked, c.from = x, t
	for i := range c.off {
		c.begin(&c.off[i], t)
	}
}

// begin begins the time for which the thread that runs keeps another one off, if it does.
func (c *queueCPU) begin(x *keptOff, t tracefs.Time) {
	if c.tid > 0 && c.prio < realTime && c.prio < x.off.prio {
		x.by, x.from = c.ranked, t
	}
}

// keep notes that a thread can run and does not since a time. That it was on this CPU last was
// seen since proof.
func (c *queueCPU) keep(x ranked, t, proof tracefs.Time) {
	if c.tid == x.tid || len(c.off) >= maxOffOfCPU || slices.ContainsFunc(c.off, func(y keptOff) bool { return y.off.tid == x.tid }) {
		return
	}
	c.off = append(c.off, keptOff{off: x, proof: proof})
	c.begin(&c.off[len(c.off)-1], t)
}

// keepsOff reports whether the thread that runs keeps others off.
func (c *queueCPU) keepsOff() bool {
	return slices.ContainsFunc(c.off, func(x keptOff) bool { return x.by.tid != 0 })
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
	c.leaves(ps, prev, t)
	c.runs(ps, ranked{e.TID, e.Prio}, t)
	if prev > 0 && e.State == 'R' && before != sched.NoPrio {
		c.keep(ranked{prev, before}, t, t)
	}
	return c.keepsOff()
}

// readied takes the wakeup of a thread, before activity does.
func (ps *priorities) readied(e *sched.Event, t tracefs.Time) {
	a := ps.activity
	if !ps.any || !a.whole || e.Prio == sched.NoPrio {
		return
	}
	tl := a.line(e.TID)
	tl.priority(e.Prio, t)
	if tl == nil || !tl.blocked() {
		return
	}
	if c := ps.cpu(tl.cpu); c != nil {
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
	sorting.StableFunc(list, func(x, y Inversion) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Lock.born, y.Lock.born), cmp.Compare(x.Waiter.TID, y.Waiter.TID),
			cmp.Compare(x.Owner.TID, y.Owner.TID), cmp.Compare(x.Middle.TID, y.Middle.TID))
	})
}
