package tasks

import (
	"slices"

	"ustack/tracefs"
)

// A process that is gone cannot be asked any more, but the calls that it made are known: all
// that time in which none of them can have unmapped anything, it kept every file that it had
// mapped, at whatever address; and all that time in which none can have unmapped code, every
// file of which it had code. What the kernel announced because of a stack of that time holds
// for all of it (see Kept).

// stay is a time in which a process unmapped nothing. native: it is known to make the system
// calls that have tracepoints; one of 32 bits makes others.
type stay struct {
	from, to tracefs.Time
	native   bool
}

// stays are the stays of processes, in order; one that goes on ends forever.
type stays map[int][]stay

// maxStays bounds the stays of a process that are kept.
const maxStays = 64

// open returns the stay of a process that goes on, nil if there is none.
func (s stays) open(pid int) *stay {
	if list := s[pid]; len(list) > 0 && list[len(list)-1].to == forever {
		return &list[len(list)-1]
	}
	return nil
}

func (s stays) begin(pid int, at tracefs.Time, native bool) {
	if s.open(pid) != nil {
		return
	}
	list := s[pid]
	if len(list) >= maxStays {
		list = slices.Clone(list[maxStays/2:])
	}
	s[pid] = append(list, stay{at, forever, native})
}

// end ends the stay that goes on. It is none if it began no earlier.
func (s stays) end(pid int, at tracefs.Time) {
	switch x := s.open(pid); {
	case x == nil:
	case at <= x.from:
		s.undo(pid)
	default:
		x.to = at
	}
}

// undo takes the stay back that goes on.
func (s stays) undo(pid int) {
	if s.open(pid) != nil {
		s[pid] = s[pid][:len(s[pid])-1]
	}
}

// expire forgets the stays that ended before a time.
func (s stays) expire(before tracefs.Time) {
	for pid, list := range s {
		n := 0
		for n < len(list) && list[n].to <= before {
			n++
		}
		switch {
		case n == len(list):
			delete(s, pid)
		case n > 0:
			s[pid] = slices.Clone(list[n:])
		}
	}
}

// keeps is what processes keep: all that they have mapped, or what they have as code.
type keeps struct{ all, code stays }

func newKeeps() keeps { return keeps{make(stays), make(stays)} }

// each calls fn with both.
func (k keeps) each(fn func(stays)) {
	fn(k.all)
	fn(k.code)
}

// Kept reports whether a process had all files at the second time that it had mapped at the
// first one, or had as code: it was the same program, and no call was under way that can
// unmap any of that.
func (t *Tasks) Kept(pid int, from, to tracefs.Time, code bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.keeps.all
	if code {
		of = t.keeps.code
	}
	for _, x := range slices.Backward(of[pid]) {
		if x.from+slack <= from {
			return x.native && to+slack <= min(x.to, t.horizon)
		}
	}
	return false
}

// Changes counts what can have mapped a file: another one can have its identifier now.
func (k *known) Changes() int64 { return k.changes.Load() }

// unmaps reports whether a call can unmap something, or code. It cannot unmap code where it
// is known that there is none, and no other call meanwhile can have made any.
func (f *flight) unmaps(code bool) bool {
	switch f.kind {
	case Move, Attach, Detach, Exec:
		return true
	}
	return f.cuts && (f.unsafe || f.touched || !code)
}

// losing ends the stays of the processes of a memory in which a call is under way that can
// unmap something, and begins the others.
func (k *known) losing(m *memory, at tracefs.Time) {
	for _, pid := range m.pids {
		k.keeps.all.losing(m, pid, false, at)
		k.keeps.code.losing(m, pid, true, at)
	}
}

func (s stays) losing(m *memory, pid int, code bool, at tracefs.Time) {
	switch {
	case slices.ContainsFunc(m.flights, func(f flight) bool {
		// execve leaves alone what others share with the process.
		return f.unmaps(code) && (f.kind != Exec || f.pid == pid)
	}):
		s.end(pid, at)
	case !m.met && !m.blind:
		s.begin(pid, at, m.native)
	}
}

// undo takes back that a process keeps anything now.
func (k *known) undo(pid int) { k.keeps.each(func(s stays) { s.undo(pid) }) }

// called notes that a process made a system call that has a tracepoint.
func (k *known) called(m *memory) {
	if m.native {
		return
	}
	m.native = true
	for _, pid := range m.pids {
		k.keeps.each(func(s stays) {
			if x := s.open(pid); x != nil {
				x.native = true
			}
		})
	}
}
