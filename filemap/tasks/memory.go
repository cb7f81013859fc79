package tasks

import (
	"slices"
	"sync/atomic"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// memory is an address space: of one process, or of several that share it. What is not dirty
// is known, unless a call is under way there.
type memory struct {
	pids    []int
	flights []flight
	dirty   dirty
	answer  *answer // that does not count yet
	// doubt is set until no call can be under way whose entry was not seen.
	doubt *doubt
	// blind: it gets no files, because its calls are not seen, or it has none.
	blind bool
	// keeps: not all that it has goes to a child (MADV_DONTFORK).
	keeps bool
	// met: it was there when tracing began, or while records were missing.
	met bool
	// native: it has made a call that has a tracepoint.
	native bool
	// again is when it may be asked again, after so many tries in vain.
	again tracefs.Time
	tries int
}

// answer is what a process had at addresses, asked from asked on and answered by answered.
type answer struct {
	asked, answered tracefs.Time
	parts           []part
	code            []procmap.Mapping
	dropped         bool // not all parts are left
}

// known is what is known of memories.
type known struct {
	spaces  *space.Spaces
	todo    map[*memory]bool // that have something dirty, or a doubt
	loading map[*memory]bool // with calls of execve that are not noted
	keeps   keeps
	// Watch is set before the first event; nil for none.
	Watch   Watch
	changes atomic.Int64 // programs that were executed, and calls that can have mapped code
}

func newKnown(s *space.Spaces) *known {
	return &known{spaces: s, todo: make(map[*memory]bool), loading: make(map[*memory]bool), keeps: newKeeps()}
}

// maxSharing bounds the processes that share one memory.
const maxSharing = 64

// has reports whether anything is known to be at addresses. The processes have the same, but
// one that executes a program, of which nothing is known.
func (k *known) has(m *memory, s span) bool {
	for _, pid := range m.pids {
		if v := k.spaces.Space(pid).At(forever - 1); v != nil {
			for range v.Mappings.Between(s.start, s.end) {
				return true
			}
		}
	}
	return false
}

// empty reports whether it is known of all processes that nothing is at addresses.
func (k *known) empty(m *memory, s span) bool {
	return !slices.ContainsFunc(m.pids, func(pid int) bool {
		return !k.spaces.Space(pid).At(forever-1).Empty(s.start, s.end)
	})
}

// unknown notes for all processes of a memory that it is unknown what they have.
func (k *known) unknown(m *memory, s span, at tracefs.Time) {
	for _, pid := range m.pids {
		k.spaces.Unknown(pid, s.start, s.end, at)
	}
}

// soil notes that addresses can have changed until a time.
func (k *known) soil(m *memory, s span, until tracefs.Time) {
	m.dirty = m.dirty.add(s, until)
	k.todo[m] = true
}

// enter notes the entry into a call.
func (t *Tasks) enter(m *memory, e *Event) {
	t.count(m, e.Time)
	f := newFlight(e)
	f.pid = t.threads.now(e.TID)
	if i := m.flight(e.TID); i >= 0 {
		t.leave(m, i, -1, e.Time) // its return was not seen
	}
	switch e.Kind {
	case KeepForFork:
		m.keeps = true
		return
	case Clone:
		for i := range m.flights {
			f.touch(&m.flights[i])
		}
		m.flights = append(m.flights, f)
		return
	}
	t.meet(m, &f)
	m.flights = append(m.flights, f)
	defer t.losing(m, e.Time)
	for i := range m.flights {
		if o := &m.flights[i]; o.anywhere {
			m.answer.drop(whole)
		}
	}
	for _, s := range f.spans {
		m.answer.drop(s)
	}
	if f.kind == Exec {
		t.loading[m] = true
		return
	}
	t.begin(m, &m.flights[len(m.flights)-1])
}

// meet has a new call and those under way know of each other.
func (k *known) meet(m *memory, f *flight) {
	if f.kind == Move && (m.dirty.overlaps(f.old) || k.has(m, f.old)) {
		f.moving()
	}
	m.meetAll(f)
	if f.kind == Move && f.met && !f.makes {
		f.moving()
		m.meetAll(f)
	}
}

// meetAll has the calls under way know of one that can change the same. What mremap moves can
// be code then, and go anywhere, where it meets others.
func (m *memory) meetAll(f *flight) {
	for i := range m.flights {
		o := &m.flights[i]
		switch {
		case o == f:
		case o.kind == Clone:
			o.touch(f)
		case f.meets(o):
			f.met, o.met, f.touched, o.touched = true, true, true, true
			if o.kind == Move && !o.makes {
				o.moving()
				m.meetAll(o)
			}
		}
	}
}

// moving notes that what mremap moves can be code.
func (f *flight) moving() {
	if f.kind == Move {
		f.makes, f.anywhere, f.touched = true, len(f.spans) == 1, true
	}
}

// begin notes what a call can change from its entry on.
func (k *known) begin(m *memory, f *flight) {
	for _, s := range f.spans {
		mapped := k.has(m, s)
		f.unsafe = f.unsafe || !k.empty(m, s)
		if mapped || m.dirty.overlaps(s) {
			f.touched = true
		}
		if f.cuts && (mapped || f.makes) {
			k.unknown(m, s, f.at)
			k.soil(m, s, f.at)
		}
	}
}

// flight returns the index of the call that a thread has under way, -1 if there is none.
func (m *memory) flight(tid int) int {
	return slices.IndexFunc(m.flights, func(f flight) bool { return f.tid == tid })
}

// leave notes the return of a call. A result of -1 is an unknown one.
func (t *Tasks) leave(m *memory, i int, result int64, at tracefs.Time) {
	t.count(m, at)
	f := m.flights[i]
	m.flights = slices.Delete(m.flights, i, i+1)
	defer t.losing(m, at)
	if m.tries > 0 {
		m.tries, m.again = 0, 0 // it may have been waited for
	}
	switch f.kind {
	case Clone:
		return
	case Exec:
		t.unexecuted(m, &f, result, at)
		return
	}
	ok := result != -1 && !fails(uint64(result))
	if f.makes {
		t.changes.Add(1)
	}
	for _, s := range f.spans {
		switch {
		case f.makes:
			t.soil(m, s, at)
		case !f.touched && !m.dirty.overlaps(s):
		case ok && f.cuts && f.kind != Move && !f.met && m.doubt == nil:
			m.dirty = m.dirty.without(s)
			t.gone(m, s, at)
		default:
			t.soil(m, s, at)
		}
	}
	switch {
	case !f.anywhere:
	case ok:
		t.placed(m, pages(uint64(result), f.size), at)
	case result == -1: // it can be anywhere
		t.unknown(m, whole, at)
		t.soil(m, whole, at)
	}
}

// gone notes that there is nothing at addresses from a time on.
func (k *known) gone(m *memory, s span, at tracefs.Time) {
	for _, pid := range m.pids {
		k.spaces.Unmap(pid, s.start, s.end, at)
	}
}

// placed notes that a call made something at a place that was free.
func (k *known) placed(m *memory, s span, at tracefs.Time) {
	k.unknown(m, s, at)
	k.soil(m, s, at)
	for i := range m.flights {
		if f := &m.flights[i]; f.kind == Clone {
			f.touchSpan(s)
		} else if f.overlaps(s) {
			f.met, f.touched = true, true
			if f.kind == Move && !f.makes {
				f.moving()
				m.meetAll(f)
				m.answer.drop(whole)
			}
		}
	}
}

// busy reports whether a call is under way that can change addresses.
func (m *memory) busy(s span) bool {
	return slices.ContainsFunc(m.flights, func(f flight) bool { return f.overlaps(s) })
}

// drop leaves addresses out of an answer.
func (a *answer) drop(s span) {
	if a == nil {
		return
	}
	if dirty(a.parts).overlaps(s) {
		a.parts, a.dropped = dirty(a.parts).without(s), true
	}
}

// count has an answer count if it was there before a time.
func (k *known) count(m *memory, at tracefs.Time) {
	a := m.answer
	if a == nil || at <= a.answered {
		return
	}
	m.answer = nil
	if m.tries = 0; a.dropped { // it does not hold still: it may take a part of our time
		m.again = a.answered + max(patience, 4*(a.answered-a.asked))
	}
	for _, p := range a.parts {
		for _, pid := range m.pids {
			k.watchAll(pid, a.code, p)
			k.spaces.Held(pid, p.start, p.end, a.code, p.since)
		}
		m.dirty = m.dirty.without(p.span)
	}
	if len(m.dirty) == 0 {
		delete(k.todo, m)
	}
}

// Watch is told of each mapping that a process was found to have, since when, before it counts. It
// may take the build ID from it.
type Watch func(pid int, m *procmap.Mapping, since tracefs.Time)

// watchAll reports the mappings of an answer that lie in a part.
func (k *known) watchAll(pid int, code []procmap.Mapping, p part) {
	for i := range code {
		if m := &code[i]; k.Watch != nil && m.Start < p.end && p.start < m.End {
			k.Watch(pid, m, p.since)
		}
	}
}
