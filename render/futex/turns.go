package futex

// turns is who has a futex by turns: a thread that was woken there, until it wakes the
// next one. A lock that a program makes of a condition variable or of a semaphore is used
// so, as Python's GIL is; a queue is not, where some threads wake and others are woken.
// The two words at which threads wait for a condition variable share one.
type turns struct {
	tid int32 // has its turn, 0 if none has
	// kept is how often the thread that had its turn woke the next one, broken how often
	// another thread did, or the thread came to wait again without it.
	kept, broken int64
}

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
		if t.kept == 0 && t.broken >= enoughKept {
			return useSignal
		}
	}
	return useKind
}

// got notes that a thread was woken at a lock.
func (l *lock) got(tid int32) {
	if l.turns == nil {
		l.turns = l.pairTurns()
	}
	if l.turns.tid != 0 && l.turns.tid != tid {
		l.turns.broken++
	}
	l.turns.tid = tid
}

// pairTurns returns the turns of the other word of a condition variable, or new ones.
func (l *lock) pairTurns() *turns {
	const half = 4
	if l.proc != nil {
		if other := l.proc.find().locks.get(lockKey{l.key.addr ^ half, l.key.shared}); other != nil && other.find().turns != nil {
			return other.find().turns
		}
	}
	return new(turns)
}

// waits notes that a thread comes to wait at a lock.
func (l *lock) waits(tid int32) {
	if l.turns != nil && l.turns.tid == tid {
		l.turns.broken++
		l.turns.tid = 0
	}
}

// passes ends the turn of a thread that calls to wake others, and returns whose it was.
func (l *lock) passes() (tid int32) {
	if l.turns == nil {
		return 0
	}
	tid, l.turns.tid = l.turns.tid, 0
	return tid
}

// passed notes that a thread has woken another one. had is whose turn it was when it
// called.
func (l *lock) passed(tid, had int32) {
	switch {
	case l.turns == nil || had == 0:
	case tid == had:
		l.turns.kept++
	default:
		l.turns.broken++
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
		if t := l.turns; t != nil && !seen[t] {
			seen[t] = true
			sum.kept, sum.broken = sum.kept+t.kept, sum.broken+t.broken
		}
	}
	return sum.use(o.kind)
}
