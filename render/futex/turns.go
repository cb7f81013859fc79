package futex

// turns is who has a futex by turns: a thread that waited there, until it wakes the next
// one. A lock that a program makes of a condition variable or of a semaphore is used so, as
// Python's GIL is; a queue is not, where some threads wake and others are woken. The two
// words at which threads wait for a condition variable share one.
//
// The thread that was woken need not be the next one that has the lock: another, whose wait
// timed out, may take it before, and the woken one waits again. Where threads wait with
// timeouts, as for the GIL, that is most turns.
type turns struct {
	tid int32 // was woken and has not called since, 0 if none
	// waited are the threads that have come to wait since they last woke others, a bit for
	// the number modulo 64.
	waited uint64
	// kept is how often a thread that had waited woke the next one, and no other thread that
	// was woken had yet to call. broken is how often it was not so.
	kept, broken int64
	// again is how often a thread that was woken came to wait again before it woke one.
	again int64
	// into are the turns that these were added to, nil if they were not.
	into *turns
	// paired is set if the other word of the condition variable has them, too.
	paired bool
}

// find returns the turns that t has become.
func (t *turns) find() *turns {
	for t != nil && t.into != nil {
		t = t.into
	}
	return t
}

// unite adds up two turns, of which one can be nil, and makes them one.
func (t *turns) unite(o *turns) *turns {
	t, o = t.find(), o.find()
	switch {
	case t == nil:
		return o
	case o == nil || t == o:
		return t
	}
	t.kept, t.broken, t.again = t.kept+o.kept, t.broken+o.broken, t.again+o.again
	t.waited |= o.waited
	if t.tid == 0 {
		t.tid = o.tid
	}
	t.paired = t.paired || o.paired
	o.into = t
	return t
}

// turn is what a call that wakes others shows.
type turn uint8

const (
	turnUnknown turn = iota // no thread was woken there before
	turnKept
	turnBroken
)

// use is what threads use a futex as, beside what its kind is.
type use uint8

const (
	useKind   use = iota // what its kind is
	useLock              // a lock, though its kind is another
	useSignal            // to signal each other, though its kind is one of locks
)

const (
	// enoughKept is how many turns must have been kept to make a lock.
	enoughKept = 10
	// clearlyKept is how many turns must have been kept for one that was not.
	clearlyKept = 2
)

// use returns what turns make of a kind.
func (t turns) use(kind Kind) use {
	switch kind {
	case Condvar, Signal:
		if t.kept >= enoughKept && t.kept >= clearlyKept*t.broken {
			return useLock
		}
	case Semaphore:
		if t.kept == 0 && t.broken+t.again >= enoughKept {
			return useSignal
		}
	}
	return useKind
}

// got notes that a thread was woken at a lock.
func (l *lock) got(tid int32) {
	t := l.pairTurns()
	if t.tid != 0 && t.tid != tid {
		t.broken++
	}
	t.tid = tid
}

// pairTurns returns the turns of a lock, which are those of the other word of a condition
// variable, too, as soon as it is known that there is one.
func (l *lock) pairTurns() *turns {
	const half = 4
	if l.turns = l.turns.find(); l.turns == nil {
		l.turns = new(turns)
	}
	if l.turns.paired || l.proc == nil {
		return l.turns
	}
	if other := l.proc.find().locks.get(lockKey{l.key.addr ^ half, l.key.shared}); other != nil {
		other = other.find()
		l.turns = l.turns.unite(other.turns)
		l.turns.paired, other.turns = true, l.turns
	}
	return l.turns
}

// waits notes that a thread comes to wait at a lock.
func (l *lock) waits(tid int32) {
	t := l.turns.find()
	if t == nil {
		return
	}
	if t.tid == tid {
		t.tid = 0
		t.again++
	}
	t.waited |= turnBit(tid)
}

func turnBit(tid int32) uint64 { return 1 << (uint32(tid) % 64) }

// passes ends the turn of a thread that calls to wake others.
func (l *lock) passes(tid int32) turn {
	t := l.turns.find()
	if t == nil {
		return turnUnknown
	}
	woken, waited := t.tid, t.waited&turnBit(tid) != 0
	t.tid, t.waited = 0, t.waited&^turnBit(tid)
	if woken == tid || woken == 0 && waited {
		return turnKept
	}
	return turnBroken
}

// passed notes that a thread has woken another one.
func (l *lock) passed(how turn) {
	t := l.turns.find()
	switch {
	case t == nil || how == turnUnknown:
	case how == turnKept:
		t.kept++
	default:
		t.broken++
	}
}

// usedAs returns what threads use an object as.
func (o *object) usedAs() use {
	if o.role != nil {
		return useKind
	}
	var sum turns
	seen := make(map[*turns]bool, 1)
	for _, l := range o.parts {
		if t := l.turns.find(); t != nil && !seen[t] {
			seen[t] = true
			sum.kept, sum.broken, sum.again = sum.kept+t.kept, sum.broken+t.broken, sum.again+t.again
		}
	}
	return sum.use(o.kind)
}
