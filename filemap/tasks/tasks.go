package tasks

import (
	"slices"
	"sync"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Name is what this way to follow mappings is called.
const Name = "queries and tracepoints"

// Limit is what it cannot do: a process that has gone cannot be asked any more.
const Limit = "some frames of short-lived processes get no file"

const forever = space.Forever

// Tasks feeds Spaces. Its methods may be called from any goroutine.
type Tasks struct {
	*known
	clock func() tracefs.Time

	mu       sync.Mutex
	asker    Asker
	threads  threads
	memories map[int]*memory // by PID
	// moved is when a thread of a process began or ended last.
	moved map[int]tracefs.Time
	// horizon is up to when all records that were complete have been read, gap up to when
	// some are missing.
	horizon, gap tracefs.Time
	// apart is when something was changed last in some memory in doubt.
	apart tracefs.Time
	lost  bool // a census is due
	// replacing: a program is executed that was there at the census.
	replacing                bool
	censusBegun, censusEnded tracefs.Time
	nextCensus               tracefs.Time
	censusEvery              tracefs.Time
	expired                  tracefs.Time // what ended before is forgotten
}

// New returns Tasks that ask processes with a, and feed spaces. begun is a time from which on
// the records of all events come.
func New(spaces *space.Spaces, a Asker, clock func() tracefs.Time, begun tracefs.Time) *Tasks {
	t := &Tasks{known: newKnown(spaces), asker: a, clock: clock, threads: newThreads(), memories: make(map[int]*memory),
		moved: make(map[int]tracefs.Time), horizon: begun, gap: begun, lost: true, censusEvery: censusEvery}
	t.threads.since = begun
	return t
}

// Add notes an event. Events come in the order of their time, but for those whose record was
// not complete when earlier ones were read.
func (t *Tasks) Add(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	made := e.Time
	e.Time = max(e.Time, t.horizon) // before, nothing of it had any effect
	switch e.Kind {
	case Born:
		child := int(int32(e.Args[0]))
		calls := t.memories[t.threads.now(child)].calls(child, made)
		t.born(&e)
		t.resume(t.memories[t.threads.now(child)], calls)
		return
	case Executed:
		t.executed(&e)
		return
	case Ended:
		t.ended(&e)
		return
	}
	m := t.of(e.TID, e.Time)
	if m != nil && e.Kind != Foreign {
		t.called(m)
	}
	switch {
	case m == nil:
	case e.Kind == Foreign:
		t.foreign(m, e.Time)
	case e.Return:
		t.returned(m, &e)
	default:
		t.enter(m, &e)
		t.threads.seen(e.TID, e.Time)
	}
}

// of returns the memory of a thread. If the thread cannot be found any more, the memories of
// which not all threads are known can be its.
func (t *Tasks) of(tid int, at tracefs.Time) *memory {
	pid := t.group(tid)
	if pid == 0 {
		t.anyOf(at)
		return nil
	}
	m := t.memories[pid]
	if m == nil {
		m = t.fresh(pid, t.gap)
		t.lost = true // it may share its memory
	}
	return m
}

// anyOf notes that something was changed by a time in one of the memories in doubt, it is
// unknown in which one.
func (t *Tasks) anyOf(at tracefs.Time) {
	t.apart = max(t.apart, at)
	for _, m := range t.memories {
		if m.doubt != nil {
			m.answer.drop(whole)
			t.soil(m, whole, at)
		}
	}
}

// group returns the process of a thread now, 0 if it is unknown.
func (t *Tasks) group(tid int) int {
	if pid := t.threads.now(tid); pid != 0 {
		return pid
	}
	pid, err := t.asker.ThreadGroup(tid)
	if err != nil || pid <= 0 {
		return 0
	}
	t.threads.met(tid, pid)
	return t.threads.now(tid)
}

// returned notes the return of a call.
func (t *Tasks) returned(m *memory, e *Event) {
	i := m.flight(e.TID)
	switch {
	case i >= 0 && m.flights[i].kind == e.Kind:
		t.leave(m, i, int64(e.Args[0]), e.Time)
	case i >= 0 && m.flights[i].kind != Clone:
		t.leave(m, i, -1, e.Time) // a debugger has changed the call
	case m.doubt != nil && e.Kind != Exec: // its entry may have been missed
		m.answer.drop(whole)
		t.soil(m, whole, e.Time)
	}
	t.threads.seen(e.TID, e.Time)
}

// Flags of clone (include/uapi/linux/sched.h).
const cloneVM, cloneThread = 0x100, 0x10000

// born notes a new task: a thread, a process that shares the memory of its parent, or one with
// a copy of it.
func (t *Tasks) born(e *Event) {
	child, flags := int(int32(e.Args[0])), e.Args[1]
	if child <= 0 || child > tracefs.MaxTID {
		return
	}
	t.ends(child, e.Time) // that it did was not seen
	if flags&cloneThread == 0 {
		for tid := range t.threads.alive[child] {
			t.ends(tid, e.Time)
		}
		if old := t.memories[child]; old != nil {
			t.leaves(old, child, e.Time)
		}
	}
	if e.Time <= t.gap {
		t.bornBefore(child, flags, e.Time)
		return
	}
	parent := t.group(e.TID)
	pid := child
	if flags&cloneThread != 0 {
		if pid = parent; pid == 0 {
			return
		}
	}
	t.threads.born(child, pid, e.Time, e.Time)
	t.moved[pid] = e.Time
	m := t.memories[parent]
	switch {
	case flags&cloneThread != 0:
	case m == nil && flags&cloneVM != 0:
		t.spaces.Fork(0, child, e.Time)
		m := t.fresh(child, e.Time)
		m.doubt, m.met = new(doubt), true
		t.undo(child)
		t.lost = true // a census finds out with which it shares its memory
	case m == nil:
		t.spaces.Fork(0, child, e.Time)
		t.fresh(child, e.Time)
	case flags&cloneVM != 0:
		t.count(m, e.Time)
		t.spaces.Fork(parent, child, e.Time)
		t.join(m, child, e.Time)
		if slices.ContainsFunc(m.flights, func(f flight) bool { return f.kind == Exec && f.noted }) {
			t.soil(m, whole, e.Time) // what the parent had is unknown for now
		}
		if m.doubt != nil || m.blind {
			t.spaces.Unknown(child, whole.start, whole.end, e.Time)
		}
	default:
		t.copied(m, parent, child, e)
	}
}

// bornBefore notes a new task that can have executed a program or ended while records were
// missing.
func (t *Tasks) bornBefore(child int, flags uint64, at tracefs.Time) {
	if flags&cloneThread == 0 {
		t.spaces.Fork(0, child, at)
		t.fresh(child, at)
		t.lost = true
	}
}

// copied gives a process a copy of the memory of its parent.
func (t *Tasks) copied(m *memory, parent, child int, e *Event) {
	t.count(m, e.Time)
	t.spaces.Fork(parent, child, e.Time)
	c := t.own(child, e.Time)
	if c.blind, c.met = m.blind, m.met; c.blind || c.met {
		t.undo(child)
	}
	if m.native {
		t.called(c)
	}
	var unsure []span
	for _, p := range m.dirty {
		unsure = append(unsure, p.span)
	}
	i := m.flight(e.TID)
	if i >= 0 && m.flights[i].kind == Clone {
		unsure = append(unsure, m.flights[i].spans...)
		m.flights = slices.Delete(m.flights, i, i+1)
	} else {
		unsure = append(unsure, whole) // its entry was not seen
	}
	for j := range m.flights {
		switch f := &m.flights[j]; {
		case f.kind == Exec && f.noted: // what the parent had is unknown for now
			unsure = append(unsure, whole)
		case f.kind == Clone || f.kind == Exec:
		case f.anywhere:
			unsure = append(unsure, whole)
		default:
			unsure = append(unsure, f.spans...)
		}
	}
	if m.doubt != nil || m.keeps || m.blind || t.spaces.Space(parent).At(e.Time) == nil {
		unsure = append(unsure, whole)
	}
	for _, s := range unsure {
		t.spaces.Unknown(child, s.start, s.end, e.Time)
		t.soil(c, s, e.Time)
	}
}

// ended notes the end of a thread.
func (t *Tasks) ended(e *Event) {
	if pid := t.threads.now(e.TID); pid != 0 {
		t.moved[pid] = e.Time
	} else if m := t.of(e.TID, e.Time); m != nil {
		t.moved[t.threads.now(e.TID)] = e.Time
	}
	t.ends(e.TID, e.Time)
}

// ends notes that a thread is no more, if it is known.
func (t *Tasks) ends(tid int, at tracefs.Time) {
	pid := t.threads.now(tid)
	m := t.memories[pid]
	if m != nil {
		t.count(m, at)
		if i := m.flight(tid); i >= 0 {
			t.leave(m, i, -1, at)
		}
	}
	t.threads.ended(tid, at)
	if pid == 0 || len(t.threads.alive[pid]) > 0 || m != nil && m.doubt != nil && !m.doubt.sure {
		return // or there can be other threads
	}
	delete(t.moved, pid)
	if t.spaces.Exit(pid, at); m != nil {
		t.leaves(m, pid, at)
	}
}

// Lose notes that records are missing between two times.
func (t *Tasks) Lose(from, to tracefs.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from = max(from, t.horizon) // what was not read before had no effect before
	to = max(to, from)
	for pid, m := range t.memories {
		t.count(m, from)
		t.spaces.Lose(pid, from)
	}
	t.keeps.each(func(s stays) {
		for pid := range s {
			s.end(pid, from)
		}
	})
	t.gap, t.lost = max(t.gap, to), true
	t.threads.lose(from, t.gap)
	clear(t.memories)
	clear(t.todo)
	clear(t.loading)
	clear(t.moved)
}

// Drained notes that all records have been read that were complete at a time.
func (t *Tasks) Drained(until tracefs.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.horizon = max(t.horizon, until)
	for m := range t.todo {
		if d := m.doubt; d != nil && d.over > 0 && d.over+slack < t.horizon {
			m.doubt = nil
		}
		t.count(m, t.horizon)
	}
	t.executing()
}

// Reread has a process asked anew for all code that it has mapped, by the number of any of its
// threads. What is found is known from now on, before no more than what was there already.
func (t *Tasks) Reread(tid int, drain func() error) error {
	t.want(tid)
	return t.Settle(drain)
}

func (t *Tasks) want(tid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pid := t.group(tid)
	if pid == 0 {
		return
	}
	m := t.memories[pid]
	if m == nil {
		m = t.fresh(pid, t.gap)
		t.lost = true
	}
	if m.again = 0; len(m.dirty) == 0 && !m.blind {
		t.soil(m, whole, max(t.clock(), t.horizon))
	}
}

// keep is how long what ended can still be looked up, counted from the time that
// the trace has reached: far more than its records are out of order.
const keep = tracefs.Time(10e9)

// Reached sets the time up to which the spaces have been looked up. It drops what
// ended long before.
func (t *Tasks) Reached(at tracefs.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := at - keep; before-t.expired > keep/4 {
		t.spaces.Expire(before)
		t.threads.expire(before)
		t.keeps.each(func(s stays) { s.expire(before) })
		t.expired = before
	}
}

// Settled reports whether all is known up to a time, and there is nothing to ask for.
func (t *Tasks) Settled(at tracefs.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return at < t.horizon && len(t.todo) == 0 && !t.lost
}

// Found notes what a process has at an address, memory that is no code.
func (t *Tasks) Found(pid int, m *procmap.Mapping, at, after tracefs.Time) {
	t.spaces.MapAfter(pid, m, at, after)
}

// PID returns the process of a thread at a time. late is always true: not all that a process
// can do is seen.
func (t *Tasks) PID(tid int, at tracefs.Time) (pid int, late, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pid, known := t.threads.at(tid, at)
	if !known && len(t.threads.lives[tid]) == 0 {
		pid = t.group(tid)
		pid, known = t.threads.at(tid, at)
	}
	return pid, true, known
}
