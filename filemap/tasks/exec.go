package tasks

import (
	"slices"

	"ustack/tracefs"
)

// soonest is less than execve takes to replace the memory after its entry: it has to find and
// read the program first. The stack of the entry itself, in another instance, comes before.
const soonest = tracefs.Time(2000)

// executing notes the calls of execve that have not returned by now: what their processes
// have is unknown.
func (t *Tasks) executing() {
	for m := range t.loading {
		left := false
		for i := range m.flights {
			f := &m.flights[i]
			switch {
			case f.kind != Exec || f.noted:
			case f.at+soonest < t.horizon:
				f.noted = true
				t.spaces.Lose(t.threads.now(f.tid), f.at+soonest)
			default:
				left = true
			}
		}
		if !left {
			delete(t.loading, m)
		}
	}
}

// unexecuted notes that execve returned an error. If the program was not found, nothing has
// changed.
func (t *Tasks) unexecuted(m *memory, f *flight, result int64, at tracefs.Time) {
	pid := t.threads.now(f.tid)
	switch {
	case result != -1 && unloaded(uint64(result)) && !f.noted:
	case result != -1 && unloaded(uint64(result)) && !f.met:
		t.spaces.Resumed(pid, f.at+soonest)
	default:
		for _, pid := range m.pids {
			t.spaces.Lose(pid, f.at)
		}
		t.soil(m, whole, at)
	}
}

// executed notes that a process runs another program from a time on.
func (t *Tasks) executed(e *Event) {
	pid, old := int(int32(e.Args[0])), int(int32(e.Args[1]))
	if pid <= 0 {
		return
	}
	m := t.memories[pid]
	if m == nil {
		t.lost = true // which can have disturbed a census
	} else {
		t.count(m, e.Time)
		i := m.flight(old)
		if i >= 0 && m.flights[i].kind == Exec && m.flights[i].at+soonest < e.Time && !m.flights[i].noted {
			t.spaces.Lose(pid, m.flights[i].at+soonest)
		}
		since := tracefs.Time(0)
		if i >= 0 {
			since = m.flights[i].at
		}
		t.lost = t.lost || t.disturbs(m, since, e.Time)
		m.answer.drop(whole)
		t.undo(pid) // else the entry into the call had ended it
		m.flights = slices.DeleteFunc(m.flights, func(f flight) bool { return t.threads.now(f.tid) == pid })
		t.leaves(m, pid, e.Time)
		t.losing(m, e.Time) // of the others that shared it
	}
	if e.Time > t.gap { // it may have ended since
		t.threads.executed(pid, old, e.Time)
	}
	t.changes.Add(1)
	t.spaces.Exec(pid, "", e.Time)
	t.fresh(pid, e.Time)
}

// fresh gives a process a memory of which nothing is known from a time on.
func (t *Tasks) fresh(pid int, at tracefs.Time) *memory {
	m := t.own(pid, at)
	t.unknown(m, whole, at)
	if t.soil(m, whole, max(at, t.gap)); m.doubt != nil {
		t.soil(m, whole, max(at, t.apart))
	}
	return m
}

// own gives a process a memory of its own from a time on.
func (t *Tasks) own(pid int, at tracefs.Time) *memory {
	if old := t.memories[pid]; old != nil {
		t.leaves(old, pid, at)
	}
	m := &memory{pids: []int{pid}}
	if t.memories[pid] = m; at <= t.gap {
		m.doubt, m.met = new(doubt), true
	}
	t.losing(m, at)
	return m
}

// exiting is more than a process that ends takes from giving its memory back to the record of
// its end.
const exiting = tracefs.Time(10e6)

// leaves notes that a process has no part in a memory any more. If it is unknown with which
// ones it shared it, because it ended before they were compared, what it changed can be in any
// of them.
func (t *Tasks) leaves(m *memory, pid int, at tracefs.Time) {
	t.keeps.each(func(s stays) { s.end(pid, at) })
	if m.doubt != nil && (t.lost || at <= t.censusEnded+exiting) {
		t.anyOf(at)
	}
	t.forget(m, pid)
}

// forget takes a process out of a memory.
func (t *Tasks) forget(m *memory, pid int) {
	m.pids = slices.DeleteFunc(slices.Clone(m.pids), func(p int) bool { return p == pid })
	if delete(t.memories, pid); len(m.pids) == 0 {
		delete(t.todo, m)
	}
}
