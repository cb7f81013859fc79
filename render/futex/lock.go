package futex

import (
	"cmp"
	"slices"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/symbol"
	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
	"ustack/tracefs/syscalls"
)

// lockKey is where a futex is, in a process.
type lockKey struct {
	addr   uint64
	shared bool // between processes: without FUTEX_PRIVATE_FLAG
}

// flow is a way to wait, with the way in which the wait was ended.
type flow struct{ wait, wake int32 }

// lock is a futex and what became of the waits on it.
type lock struct {
	// The fields that decide whether it becomes another's part are together, as in
	// thread.
	parent *lock
	active int          // waits and calls that are under way
	time   tracefs.Time // of all waits that ended
	born   int64        // how many locks there were before it
	proc   *process
	key    lockKey
	// owner is the thread that got the lock by waiting and has not released it
	// since, 0 if none is known.
	owner  int32
	logged int32   // its number in the log of calls, 0 if it has none
	inLog  int32   // the same in impactLog, from 1 on
	owning *thread // that had the number when it got the lock

	site  *site
	file  fileKey // of a shared futex, if known
	path  string  // of the file
	local bool    // in memory that is known not to be shared

	results   [resultCount]int64
	doubt     tracefs.Time // the part of time that is not certain
	durations tally.Durations
	course    course
	traits    traits
	byName    Kind  // by the functions that wait, Unknown if not looked up
	foreign   bool  // by them the calls are not the Go runtime's
	role      *role // by them too, nil if it has none, with the file of the function
	roleFile  *filemap.File
	inRole    inRole
	flows     parts[flow]
	blamed    parts[int32] // time by the stack that others waited for
	waiters   parts[int32]
	wakers    parts[int32]
	holders   parts[int32]
	turns     *turns       // nil if no thread was woken there
	owners    parts[int32] // as often as the lock's memory said so
	read      recent       // the last times
	ownedFrom tracefs.Time
	ownedCall tracefs.Time // when the call began from which its owner returned then
	ownedSure bool
	given     tracefs.Time // when the call was made that gave it to the owner, 0 if unknown
	lastWake  tracefs.Time
	lastDone  tracefs.Time
	spent     *spent        // what ended waits were spent on, nil if nothing is known
	holds     *holdSums     // nil if none is known
	past      *pastReleases // nil if there are none
	woken     tracefs.Time  // when a thread last called to release it
	partial   bool          // it may have had waits that went into others
	gone      bool          // another one is at its key now
	max       *Wait
	// layout is what the process had mapped when the lock was first seen, nil if
	// unknown; the variable is nil if it is in none, or was not looked up.
	layout   filemap.Layout
	trust    filemap.Trust // of the layout
	variable *symbol.Variable
	room     *firsts // for its first wait, nil if it had one
}

// newLock makes a lock with the room for its first wait in one piece of memory: hardly
// any lock has none.
func newLock() *lock {
	n := new(struct {
		lock
		firsts
	})
	n.room = &n.firsts
	return &n.lock
}

func (l *lock) find() *lock {
	for l.parent != nil {
		if l.parent.parent != nil {
			l.parent = l.parent.parent
		}
		l = l.parent
	}
	return l
}

// keyOf returns where a call's futex is.
func keyOf(f *syscalls.Futex) lockKey { return lockKey{f.Addr, !f.Private} }

// lock returns the lock at an address of a thread's process.
func (lk *locks) lock(th *thread, key lockKey, t tracefs.Time) *lock {
	p := th.proc.find()
	l := lk.known(th, key)
	if l != nil && !lk.replaced(l, th, key, t) && !lk.remapped(l, th, key, t) {
		return l
	}
	if lk.count >= lk.most {
		lk.fold()
	}
	l = newLock()
	l.key, l.proc, l.partial, l.born = key, p, lk.evicted, lk.born
	lk.born++
	if same := lk.inFile(l, th, t); same != nil {
		p.put(key, same)
		return same
	}
	lk.place(l, th, t)
	p.put(key, l)
	if len(lk.all) >= 2*lk.most {
		lk.all = slices.DeleteFunc(lk.all, func(l *lock) bool { return l.parent != nil })
	}
	lk.all = append(lk.all, l)
	lk.count++
	return l
}

// place asks what the process of a thread has mapped, for a lock that is new; a report
// has it in its lines.
func (lk *locks) place(l *lock, th *thread, t tracefs.Time) {
	if lk.layouts == nil {
		n := lk.placings.layouts[placing{th.proc.find(), l.key.addr}]
		l.layout, l.trust = n.layout, n.trust
		return
	}
	l.layout, l.trust = lk.layouts.Layout(th.tid, th.proc.find().tgid, th.name(), t, !lk.losses.Ticks, l.key.addr)
}

// replaced reports whether the program or library that a lock is in has gone from its
// place: then another lock is there. Where that is not known, the name of this one may be
// the other's.
func (lk *locks) replaced(l *lock, th *thread, key lockKey, t tracefs.Time) bool {
	if lk.layouts == nil || l.layout == nil || l.key != key || l.proc == nil || l.proc.find() != th.proc.find() {
		return false
	}
	switch lk.layouts.Stays(th.tid, th.proc.find().tgid, th.name(), t, !lk.losses.Ticks, key.addr, l.layout) {
	case proof.Gone:
		l.gone = true
	case proof.Assumed:
		l.trust = filemap.Late
	}
	return l.gone
}

// name is the thread's name, nil if it is unknown.
func (th *thread) name() []byte {
	if th.comm == "" {
		return nil
	}
	return []byte(th.comm)
}

// known returns a lock only if there is one. Folded locks are at no address.
func (lk *locks) known(th *thread, key lockKey) *lock {
	l := th.proc.find().locks.get(key)
	if l == nil {
		return nil
	}
	if l = l.find(); lk.folded(l) {
		return nil
	}
	return l
}

// folded reports whether a lock is the sum of folded ones.
func (lk *locks) folded(l *lock) bool { return l == lk.others[0] || l == lk.others[1] }

// unite makes one lock of two.
func (lk *locks) unite(l, m *lock) {
	l, m = l.find(), m.find()
	if l == m {
		return
	}
	if m == lk.others[0] || m == lk.others[1] {
		l, m = m, l
	}
	if l.proc != nil && m.proc != nil && l.proc.find() != m.proc.find() && len(m.waiters.list) > len(l.waiters.list) {
		l, m = m, l
	}
	m.parent = l
	lk.count--
	if m.proc != nil && !m.gone {
		m.proc.find().put(m.key, l)
	}
	l.merge(m)
	if l.file == (fileKey{}) {
		l.file, l.path = m.file, m.path
	}
	switch {
	case l.key != m.key:
	case lk.byLines:
		l.agree(m)
	case l.layout == nil:
		l.layout, l.trust = m.layout, m.trust
	}
}

// merge adds up what two locks have counted.
func (l *lock) merge(m *lock) {
	for i, n := range m.results {
		l.results[i] += n
	}
	if m.spent != nil {
		if l.spent == nil {
			l.spent = new(spent)
		}
		l.spent.merge(m.spent)
		m.spent = nil
	}
	l.mergeHolds(m)
	l.woken = max(l.woken, m.woken)
	if l.past != nil || m.past != nil {
		l.past = new(pastReleases)
		l.past.darken(-1, l.woken)
	}
	l.born = min(l.born, m.born)
	l.time += m.time
	l.doubt += m.doubt
	l.active += m.active
	l.durations.Merge(&m.durations)
	l.course.merge(&m.course)
	l.traits.merge(&m.traits)
	l.flows.merge(&m.flows)
	l.blamed.merge(&m.blamed)
	l.waiters.merge(&m.waiters)
	l.wakers.merge(&m.wakers)
	l.holders.merge(&m.holders)
	l.owners.merge(&m.owners)
	l.turns = l.turns.unite(m.turns)
	l.read = l.read.merged(m.read)
	if m.ownedFrom > l.ownedFrom {
		l.owner, l.owning, l.ownedFrom, l.ownedCall, l.ownedSure = m.owner, m.owning, m.ownedFrom, m.ownedCall, m.ownedSure
		l.given = m.given
	}
	l.lastWake, l.lastDone = max(l.lastWake, m.lastWake), max(l.lastDone, m.lastDone)
	l.partial = l.partial || m.partial
	if l.max == nil || m.max != nil && m.max.Time > l.max.Time {
		l.max = m.max
	}
	m.dropParts()
	m.waiters, m.max, m.past, m.room = parts[int32]{}, nil, nil, nil
	m.durations, m.course = tally.Durations{}, course{}
}

// dropParts forgets all parts but the waiters.
func (l *lock) dropParts() {
	l.flows = parts[flow]{}
	l.wakers, l.holders, l.owners, l.blamed = parts[int32]{}, parts[int32]{}, parts[int32]{}, parts[int32]{}
}

// idleLock is a lock that may become another, with what that depends on: all of them
// are looked through, and few are in the cache of the processor.
type idleLock struct {
	lock *lock
	time tracefs.Time
	born int64
}

// compare orders locks by which is to go first.
func (x *idleLock) compare(y *idleLock) int {
	return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.born, y.born))
}

// fold makes room: of the locks without waiters now, the ones with the least
// waiting become others. If there are hardly any, the waits go.
func (lk *locks) fold() {
	lk.evicted = true
	all, busy := make([]idleLock, 0, len(lk.all)), make([]*lock, 0, cap(lk.all))
	for _, l := range lk.all {
		switch {
		case l.parent != nil:
		case l.active == 0:
			all = append(all, idleLock{l, l.time, l.born})
		default:
			busy = append(busy, l)
		}
	}
	if hardlyAny(len(all), lk.count) {
		for th := range lk.tasks.threads.all() {
			if th.wait != nil || th.wake != nil {
				lk.tasks.letGo(th)
			}
		}
		for _, l := range busy {
			all = append(all, idleLock{l, l.time, l.born})
		}
		busy = busy[:0]
	}
	fold := all[:(len(all)+1)/2]
	first(all, len(fold), func(x, y *idleLock) bool { return x.compare(y) < 0 })
	sorting.Func(fold, func(x, y idleLock) int { return x.compare(&y) }) // what goes first counts first
	lk.all = busy
	for _, x := range all[len(fold):] {
		lk.all = append(lk.all, x.lock)
	}
	for _, x := range fold {
		l := x.lock
		if !l.gone {
			l.proc.find().locks.drop(l.key)
		}
		if l.file != (fileKey{}) {
			delete(lk.files, l.file)
		}
		other := lk.others[l.kind().section()]
		l.handOver(other)
		l.parent = other
		l.dropParts()
		other.merge(l)
		lk.count--
	}
	lk.tasks.forgetLocks(lk.folded)
}

// handOver has the thread that holds a lock hold another one, into which it is
// folded: nothing else keeps it in memory for long.
func (l *lock) handOver(other *lock) {
	th := l.owning
	if l.owner == 0 || th == nil || th.tid != l.owner {
		return
	}
	l.owning = nil
	if th.got == l {
		th.got = other
	}
	for i, x := range th.holds {
		if x == l {
			th.holds[i] = other
		}
	}
}

// provenSame takes the evidence of a wakeup: the waker's lock and the waiter's
// are one. Private futexes work within one process only, so then the two
// processes are one, too.
func (lk *locks) provenSame(s *span) {
	l, k := s.lock.find(), s.waker.find()
	if l == k || l.proc == nil || k.proc == nil {
		return
	}
	if l.key.shared || k.key.shared {
		if l.key.shared == k.key.shared && !l.elsewhere(k) {
			lk.unite(l, k)
		}
		return
	}
	p, q := l.proc.find(), k.proc.find()
	if p.run.known || q.run.known {
		return // lines of a report decide that, call by call
	}
	if l.key == k.key && !distinct(p, q) && p != q {
		if root := lk.tasks.unite(p, q); root.how < ByWakes {
			root.how = ByWakes
		}
	}
}

// moveLocks gives a process the locks of another one that proved to be the same.
func (lk *locks) moveLocks(to, from *process) {
	from.locks.each(func(key lockKey, l *lock) {
		l.find().partial = l.find().partial || lk.evicted // as to may have had it, too
		if own := to.locks.get(key); own != nil && own.find().elsewhere(l.find()) {
			l.find().leaves(from, key)
		} else if own != nil {
			lk.unite(own, l)
		} else {
			to.put(key, l.find())
		}
	})
	from.locks = lockMap{}
}
