package futex

import (
	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/tally"
	"ustack/tracefs"
)

// object is what a row of a report is about: a futex, or several that are one thing, as
// the words of a condition variable are, or the semaphores at which the threads of a
// program wait for its own locks.
//
// Invariants:
//   - A futex is in one object.
//   - sum is the only one of parts, or a copy with the counts of all of them.
//   - By object, no mutex is grouped: its holders and its owner are its own.
type object struct {
	sum   *lock
	parts []*lock
	kind  Kind
	role  *role
	use   use
	group By // what the parts have in common, empty if they are one thing
}

// words is the object of the words of a condition variable: the pair at which threads
// wait for signals begins at an address.
type words struct {
	proc *process
	at   uint64
}

// Where the other words of a condition variable are, from the pair at which threads
// wait. Up to glibc 2.40 __g_refs, at which a signaller waits until the waiters of the
// group before have left, is 24 bytes before it, and __g1_orig_size, whose low bits are
// the variable's internal lock, 8 (sysdeps/nptl/bits/thread-shared-types.h).
const (
	pairBytes  = 8
	refsBefore = 24
	lockBefore = 8
)

// grouping puts futexes into objects.
type grouping struct {
	list  []*object
	words map[words]*object
	roles map[roleKey]*object
	sites map[siteKey]*object
	kinds map[kindKey]*object
	// none are the roles that are none in this trace.
	none map[roleKey]bool
}

// roleOf returns the role of a futex.
func (g *grouping) roleOf(l *lock) *role {
	if g.none[l.roleKey(l.role)] {
		return nil
	}
	return l.role
}

// siteKey is the object of futexes of one kind that threads wait for at one place.
type siteKey struct {
	kind Kind
	use  use
	place
}

// place is where in a program threads wait: a function, or an offset if it has no name.
type place struct {
	file     *filemap.File
	function string
	offset   uint64
}

// kindKey is the object of futexes of one kind in a process.
type kindKey struct {
	kind Kind
	use  use
	proc *process
}

// roleKey is the object of futexes by which threads of one program wait for the same.
type roleKey struct {
	role *role
	file *filemap.File
	proc *process // nil if processes share the futexes
}

// roleKey returns the object of a role that a futex is part of.
func (l *lock) roleKey(r *role) roleKey {
	key := roleKey{role: r, file: l.roleFile}
	if l.proc != nil && !l.key.shared {
		key.proc = l.proc.find()
	}
	return key
}

// objects puts the futexes that have been used into objects, in the order in which the
// first of each was seen. It returns what these are by, too.
func (rp *reporter) objects(u *underway, by By) ([]*object, By) {
	g := grouping{words: make(map[words]*object), roles: make(map[roleKey]*object), sites: make(map[siteKey]*object), kinds: make(map[kindKey]*object), none: rp.locks.unproven()}
	var later []*lock // what can be a word of a condition variable that comes after it
	for _, l := range rp.locks.all {
		switch {
		case l.parent != nil || l.traits.waits == 0 && l.durations.Count == 0 && len(u.at(l).waits) == 0:
		case by == ByLock:
			g.list = append(g.list, &object{parts: []*lock{l}, kind: l.kind(), role: g.roleOf(l)})
		case l.besidePair():
			later = append(later, l)
		default:
			g.add(l)
		}
	}
	for _, l := range later {
		g.addBeside(l)
	}
	list := g.list
	for _, o := range list {
		o.use = o.usedAs()
	}
	bySite := func(o *object) *object { return at(&g, g.sites, siteKey{o.kind, o.use, rp.placeOf(u, o)}) }
	switch by {
	case ByAuto:
		by = ByObject
		if sites := g.grouped(BySite, bySite); u.answers(sites, list) { // the objects are as they were
			by, list = BySite, sites
		}
	case BySite:
		list = g.grouped(by, bySite)
	case ByKind:
		list = g.grouped(by, func(o *object) *object { return at(&g, g.kinds, kindKey{o.kind, o.use, o.process()}) })
	}
	for _, o := range list {
		o.add(u)
	}
	return list, by
}

const (
	// manyFutexes is how many futexes a site must have to be the answer.
	manyFutexes = 8
	// clearlyMore is how many times the waiting of each object it must have then.
	clearlyMore = 2
)

// answers reports whether the site with the most waiting for locks says more than the
// object with the most: it has many of them, none of which has most of its waiting.
func (u *underway) answers(sites, objects []*object) bool {
	site, of := u.mostWaited(sites)
	_, one := u.mostWaited(objects)
	return site != nil && len(site.parts) >= manyFutexes && of >= clearlyMore*one && u.rp.placeOf(u, site).file != nil
}

// mostWaited returns the lock with the most waiting, and how much.
func (u *underway) mostWaited(list []*object) (most *object, time tracefs.Time) {
	for _, o := range list {
		if o.role == nil && o.use != useLock && (!o.kind.Contention() || o.use == useSignal) {
			continue
		}
		var t tracefs.Time
		for _, l := range o.parts {
			t += l.time + u.at(l).time
		}
		if t > time {
			most, time = o, t
		}
	}
	return most, time
}

// grouped puts the objects into those that of returns for each, and returns these.
func (g *grouping) grouped(by By, of func(*object) *object) []*object {
	list := g.list
	g.list = nil
	for _, o := range list {
		to := of(o)
		if to.parts == nil {
			to.kind, to.role, to.use = o.kind, o.role, o.use
		}
		if to.role != o.role {
			to.role = nil
		}
		to.parts, to.group = append(to.parts, o.parts...), by
	}
	return g.list
}

// process returns the process of all parts, nil if there are several.
func (o *object) process() *process {
	var p *process
	for i, l := range o.parts {
		if l.proc == nil || i > 0 && l.proc.find() != p {
			return nil
		}
		p = l.proc.find()
	}
	return p
}

// placeOf returns where threads wait for an object most of the time.
func (rp *reporter) placeOf(u *underway, o *object) (most place) {
	times := make(map[place]tracefs.Time)
	add := func(stack int32, t tracefs.Time) {
		p := placeOf(rp.stacks.Get(stack))
		if times[p] += t + 1; times[p] > times[most] { // + 1: those that did not sleep count, too
			most = p
		}
	}
	for _, l := range o.parts {
		for i := range l.flows.list {
			f := &l.flows.list[i]
			add(f.key.wait, f.Time)
		}
		for _, w := range u.at(l).waits {
			add(w.stack, u.end-w.since)
		}
	}
	return most
}

// place returns the innermost place outside of the C library, else the outermost that is
// known.
func placeOf(s *Stack) (p place) {
	if s == nil {
		return place{}
	}
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File == nil {
			continue
		}
		p = place{file: f.File, offset: f.Offset}
		if f.Name != nil && f.Name.Reason == symbol.NoReason {
			p = place{file: f.File, function: f.Name.Function}
		}
		if !f.InLibc() {
			return p
		}
	}
	return p
}

// add adds a futex to the object that it is part of.
func (g *grouping) add(l *lock) {
	kind, role := l.kind(), g.roleOf(l)
	switch {
	case role != nil && role.each && !kind.exclusive():
		o := at(g, g.roles, l.roleKey(role))
		o.parts, o.kind, o.role = append(o.parts, l), kind, role
	case kind == Condvar && l.proc != nil && l.traits.bitset == l.traits.waits:
		o := at(g, g.words, words{l.proc.find(), l.key.addr &^ (pairBytes - 1)})
		o.parts, o.kind = append(o.parts, l), kind
		if o.role == nil {
			o.role = role
		}
	default:
		g.list = append(g.list, &object{parts: []*lock{l}, kind: kind, role: role})
	}
}

// at returns the object at a key, made if need be.
func at[K comparable](g *grouping, m map[K]*object, key K) *object {
	o := m[key]
	if o == nil {
		o = new(object)
		m[key] = o
		g.list = append(g.list, o)
	}
	return o
}

// besidePair reports whether threads use a futex as the word of a condition variable at
// which only its own functions wait: a plain wait for a value that is neither 0 nor 2,
// without a time limit, ended by a wakeup of all.
func (l *lock) besidePair() bool {
	t := &l.traits
	if l.proc == nil || t.waits == 0 || t.pi+t.bitset+t.timeouts+t.zero+t.owner > 0 {
		return false
	}
	return l.byName == Condvar || l.byName == Unknown && t.two == 0 && t.wakes == t.broadcasts && t.requeues == 0
}

// addBeside adds a futex to the condition variable of which it is a word, if there is
// one.
func (g *grouping) addBeside(l *lock) {
	pair := l.key.addr &^ (pairBytes - 1)
	for _, before := range [...]uint64{refsBefore, lockBefore} {
		if o := g.words[words{l.proc.find(), pair + before}]; o != nil {
			o.parts = append(o.parts, l)
			return
		}
	}
	g.add(l)
}

// add adds up what the futexes of an object have counted, and their waits that have not
// ended. The futexes stay as they are: the analysis may go on.
func (o *object) add(u *underway) {
	o.sum = o.parts[0]
	if len(o.parts) == 1 {
		return
	}
	first := *o.sum
	sum := newLock()
	sum.key, sum.proc, sum.file, sum.path, sum.local = first.key, first.proc, first.file, first.path, first.local
	sum.born, sum.role, sum.roleFile = first.born, o.role, first.roleFile
	open := new(pending)
	for _, l := range o.parts {
		sum.key.shared = sum.key.shared || l.key.shared
		if l.proc == nil || sum.proc == nil || l.proc.find() != sum.proc.find() {
			sum.proc = nil
		}
		if sum.variable == nil {
			sum.variable, sum.trust = l.variable, l.trust
		}
		sum.merge(l.copied())
		open.add(u.at(l))
	}
	o.sum = sum
	u.locks[sum] = open
}

// copied returns a copy that can be merged: that takes what it has from it.
func (l *lock) copied() *lock {
	c := *l
	c.durations = tally.Durations{}
	c.durations.Merge(&l.durations)
	c.course = course{}
	c.course.merge(&l.course)
	return &c
}

// add adds the waits of another futex.
func (p *pending) add(q *pending) {
	p.waits = append(p.waits, q.waits...)
	p.time += q.time
	p.most = max(p.most, q.most)
	p.openDoubt += q.openDoubt
	p.doubt += q.doubt
}
