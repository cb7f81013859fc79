package futex

import "ustack/render/tally"

// dropPast forgets what only more events would need, before a report is made of the rest: both
// together would be too much memory.
func (a *Analysis) dropPast() {
	dropMoments(&a.activity)
	a.sites.dropPast()
	a.holders.past, a.holders.segs, a.holders.terms, a.holders.needs, a.holders.let = nil, nil, nil, nil, nil
	a.splits.free, a.splits.spans, a.held.free, a.calls.freeWaits = nil, nil, nil, nil
	a.tasks.dropPast()
	a.log.numbered.lookThrough()
	a.impact.locks.lookThrough()
	a.eachKept(func(d *division) { d.dropPast() })
}

// eachKept passes how waits are split of which that is kept.
func (a *Analysis) eachKept(f func(*division)) {
	one := func(w *Wait) {
		if w.lock = w.lock.find(); w.division != nil {
			f(w.division)
		}
		for i, l := range w.Holder.locks {
			w.Holder.locks[i] = l.find()
		}
	}
	for s := range a.calls.longest {
		for _, w := range a.calls.longest[s] {
			one(w)
		}
	}
	for _, l := range append(a.locks.others[:], a.locks.all...) {
		if l.max != nil {
			one(l.max)
		}
	}
	for i := range a.splits.unproven {
		p := &a.splits.unproven[i]
		p.lock = p.lock.find()
		f(p.division)
	}
}

// dropPast forgets locks that have become parts of others, and sites: what a division rests on
// would keep them.
func (d *division) dropPast() {
	for i := range d.pieces {
		d.pieces[i].call.dropPast()
	}
	for i := range d.roots {
		d.roots[i].call.dropPast()
		d.roots[i].via.dropPast()
	}
	for i := range d.steps {
		s := &d.steps[i]
		s.let.dropPast()
		s.call.dropPast()
		s.via.dropPast()
	}
}

func (k *wake) dropPast() {
	if k == nil {
		return
	}
	if k.site.drop(); k.lock != nil {
		k.lock = k.lock.find()
	}
}

func (g *ground) dropPast() {
	for ; g != nil; g = g.next {
		g.lock = g.lock.find()
		g.call.dropPast()
	}
}

// dropMoments forgets what threads have done: waits that have ended are divided already. What
// each does now stays.
func dropMoments(a *activity) {
	for _, tl := range a.lines {
		a.drop(tl, max(len(tl.list)-1, 0))
		tl.list, tl.chain = exactly(tl.list), nil
	}
	a.chains, a.samples, a.gone = 0, samples{}, goneLines{}
}

// dropPast forgets the calls of the past that wake others, and all sites. What found no waiter
// stays, for the verdict.
func (st *sites) dropPast() {
	for _, s := range st.byKey {
		s.drop()
	}
	for _, l := range append(st.locks.others[:], st.locks.all...) {
		if l.site != nil {
			l.site.drop()
		}
		if l.site = nil; l.past != nil {
			clear(l.past.list[:])
		}
	}
	clear(st.recent[:])
	st.byKey, st.past = make(map[lockKey]*site), nil
}

// drop forgets what goes on at a site: calls that are known still have it.
func (s *site) drop() { s.waiters, s.wakes, s.past = nil, nil, pastWakes{} }

// dropPast forgets which locks threads have had, and which calls woke them.
func (ts *tasks) dropPast() {
	for th := range ts.threads.all() {
		clear(th.took) // its room may be in the same piece of memory
		th.got, th.woken, th.holds, th.took = nil, nil, nil, nil
		if th.wait != nil {
			th.wait.site = nil
		}
	}
	ts.candidates = nil
}

// KeepCalls forgets all but what WaitCalls and EachHold need, after the report that they are
// called with. No other report can be made after it.
func (a *Analysis) KeepCalls() {
	a.splits.list, a.splits.unproven, a.splits.head = nil, nil, 0
	a.held.list, a.held.longest, a.held.head = nil, nil, 0
	a.calls.longest, a.holders.order, a.impact = [2]longest{}, nil, impactLog{}
	a.activity.lines, a.activity.off = nil, offCPU{}
	clear(a.activity.recent[:])
	for _, l := range append(a.locks.others[:], a.locks.all...) {
		l.dropParts()
		l.waiters, l.durations, l.course, l.turns, l.room = parts[int32]{}, tally.Durations{}, course{}, nil, nil
		l.spent, l.holds, l.past, l.max = nil, nil, nil, nil
	}
}
