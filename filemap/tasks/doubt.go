package tasks

import (
	"errors"
	"io/fs"
	"slices"

	"ustack/filemap/procmap"
	"ustack/filemap/threadcall"
	"ustack/tracefs"
)

// doubt is of a memory that was there while records were missing: calls can be under way
// whose entry was not seen, and threads be there that are unknown.
type doubt struct {
	// listed is when the threads were listed, 0 if they have to be. sure: none has begun or
	// ended meanwhile, so none is missing.
	listed tracefs.Time
	sure   bool
	tids   []int
	// over is when all threads had been found outside, 0 if they have not yet. Calls that
	// they returned from before have records that are to be read.
	over tracefs.Time
}

// Place is where a thread is.
type Place = threadcall.Place

// Where a thread can be found to be.
const (
	Elsewhere = threadcall.Elsewhere
	Inside    = threadcall.Inside
	NoThread  = threadcall.NoThread
)

// resolve reports whether no call can be under way in a memory whose entry was not seen:
// each of its threads has been outside of all such calls since records were missing. listed:
// the threads have just been listed, and it has to be asked again.
func (t *Tasks) resolve(m *memory) (listed, resolved bool) {
	d := m.doubt
	if d.over > 0 {
		return false, true
	}
	if t.lost || t.replacing {
		return false, false // it may share its memory with others
	}
	if !d.sure && (d.listed <= t.gap || t.changed(m) >= d.listed) {
		t.list(m)
		return true, false // what happened meanwhile has to be read first
	}
	d.sure = true
	left := d.tids[:0]
	for _, tid := range d.tids {
		l := t.threads.last(tid)
		if l == nil || l.outside > t.gap {
			continue
		}
		at := t.clock()
		switch t.asker.Outside(l.pid, tid, t.gap) {
		case Elsewhere:
			l.outside = at
			if i := m.flight(tid); i >= 0 && m.flights[i].at <= t.gap {
				t.leave(m, i, -1, at) // its return was missed
			}
		case Inside:
			left = append(left, tid)
		case NoThread: // its end is to come
			left = append(left, tid)
		}
	}
	if d.tids = left; len(left) > 0 {
		return false, false
	}
	d.over = t.clock()
	return false, true
}

// list lists the threads of a memory.
func (t *Tasks) list(m *memory) {
	d := m.doubt
	d.listed, d.sure, d.tids = t.clock(), false, nil
	for _, pid := range slices.Clone(m.pids) {
		tids, err := t.asker.Threads(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, procmap.ErrGone):
			t.spaces.Exit(pid, d.listed)
			t.leaves(m, pid, d.listed)
			continue
		case err != nil:
			d.listed = 0 // again
			return
		}
		for _, tid := range tids {
			t.threads.met(tid, pid)
			d.tids = append(d.tids, tid)
		}
	}
}

// changed returns when a thread of a memory began or ended last.
func (t *Tasks) changed(m *memory) (last tracefs.Time) {
	for _, pid := range m.pids {
		last = max(last, t.moved[pid])
	}
	return last
}

// census finds the processes that there are, and which of them share their memory, after
// records were missing. All of them are unknown until they have been asked.
func (t *Tasks) census() {
	now := t.clock()
	if now < t.nextCensus {
		return
	}
	pids, err := t.asker.PIDs()
	if err != nil {
		t.nextCensus = now + t.censusEvery
		return
	}
	t.lost, t.censusBegun = false, now
	var sorted []*memory
	for _, pid := range pids {
		m := t.memories[pid]
		if m == nil {
			m = t.fresh(pid, t.gap)
		}
		if m.doubt == nil {
			continue // it began after that
		}
		sorted = t.shared(sorted, m, pid)
	}
	t.censusEnded = t.clock()
	t.nextCensus = now + max(t.censusEvery, censusCost*(t.censusEnded-now))
}

// disturbs reports whether a call of execve can have replaced a memory while processes were
// compared by what they had, which puts them out of order. at is 0 if its entry is unknown.
func (t *Tasks) disturbs(m *memory, at, until tracefs.Time) bool {
	return m.doubt != nil && at <= t.censusEnded && until >= t.censusBegun
}

// replaces reports whether a call of execve is under way that disturbs the census.
func (t *Tasks) replaces() bool {
	for m := range t.todo {
		for i := range m.flights {
			if f := &m.flights[i]; f.kind == Exec && t.disturbs(m, f.at, forever) {
				return true
			}
		}
	}
	return false
}

// censusEvery is how soon a census can follow the one before; it takes a part of all time of
// one in censusCost.
const censusEvery, censusCost = tracefs.Time(1e9), 10

// shared finds out whether a process shares its memory with one of a list, which is in the
// order of Compare, and returns the list with it.
func (t *Tasks) shared(sorted []*memory, m *memory, pid int) []*memory {
	for {
		var failed *memory
		at, same := slices.BinarySearchFunc(sorted, pid, func(o *memory, pid int) int {
			order, ok := o.compare(t.asker, pid)
			if !ok {
				failed = o
			}
			return order
		})
		switch {
		case failed == nil && same:
			t.join(sorted[at], pid, t.gap)
			return sorted
		case failed == nil:
			return slices.Insert(sorted, at, m)
		}
		if _, ok := t.asker.Compare(pid, pid); !ok {
			m.blind = true // until it executes a program, which it does now, or it has ended
			t.anyOf(t.clock())
			return sorted
		}
		sorted = slices.DeleteFunc(sorted, func(o *memory) bool { return o == failed })
	}
}

// compare compares a memory with that of a process, by any of its processes that is there.
func (m *memory) compare(a Asker, pid int) (order int, ok bool) {
	for _, own := range m.pids {
		if order, ok = a.Compare(own, pid); ok {
			return order, true
		}
	}
	return 0, false
}

// join has a process share the memory of others from a time on.
func (t *Tasks) join(m *memory, pid int, at tracefs.Time) {
	old := t.memories[pid]
	if old == m {
		return
	}
	if old != nil {
		t.merge(m, old)
		t.forget(old, pid)
	}
	m.pids = append(slices.Clone(m.pids), pid)
	if t.memories[pid] = m; len(m.pids) > maxSharing {
		m.blind = true
		for _, pid := range m.pids {
			t.spaces.Lose(pid, at)
		}
		return
	}
	if m.doubt != nil {
		m.doubt.listed, m.doubt.sure, m.doubt.over = 0, false, 0
	}
	t.losing(m, at)
}

// merge notes that a memory was another one all the time: what changed one changed the other.
func (t *Tasks) merge(m, old *memory) {
	m.answer.drop(whole)
	m.flights = append(m.flights, old.flights...)
	for _, p := range old.dirty {
		t.soil(m, p.span, p.since)
	}
	m.keeps = m.keeps || old.keeps
	for i := range m.flights {
		f := &m.flights[i]
		f.met, f.touched = true, true
		if f.moving(); f.kind == Clone {
			f.spans = []span{whole}
		}
	}
}
