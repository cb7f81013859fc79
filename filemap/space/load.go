package space

import (
	"slices"

	"ustack/tracefs"
)

// loads are the times in which a process was loading a program, in order. They
// are never changed.
type loads []load

type load struct{ from, to tracefs.Time }

// Loading notes that a process executes a program at t, which does not run yet:
// it has the memory of the new program and the registers of the old one
// (begin_new_exec in fs/exec.c, and START_THREAD of the loader long after it).
func (s *Spaces) Loading(pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		if old == nil {
			return nil // not seen to execute anything
		}
		next := old.copy(pid, t)
		ls := next.loads.ended(t)
		next.loads = append(slices.Clone(ls), load{t, Forever})
		return next
	})
}

// Loaded notes that the program is ready to run at t. If it was not seen to be
// executed, that was at some time before.
func (s *Spaces) Loaded(pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		if old == nil {
			return nil
		}
		next := old.copy(pid, t)
		if n := len(next.loads); n > 0 && next.loads[n-1].to == Forever {
			next.loads = next.loads.ended(t)
		} else {
			next.loads = append(slices.Clone(next.loads), load{next.loaded(), t})
		}
		return next
	})
}

// LoadedAll notes that all programs that began to be loaded before t are ready
// to run by now: that they were may have been missed.
func (s *Spaces) LoadedAll(t, now tracefs.Time) {
	s.Snapshot().Each(func(sp *Space) bool {
		if n := len(sp.loads); n > 0 && sp.loads[n-1].to == Forever && sp.loads[n-1].from <= t {
			s.Loaded(sp.PID, now)
		}
		return true
	})
}

// Loading reports whether the process was loading a program at any time from
// from to just before to. Its registers then lead to no place in its memory.
func (s *Space) Loading(from, to tracefs.Time) bool {
	if s == nil {
		return false
	}
	for i := len(s.loads) - 1; i >= 0 && s.loads[i].to > from; i-- {
		if s.loads[i].from < to {
			return true
		}
	}
	return s.of(from) != s && s.older.Loading(from, to)
}

// ended returns the loads, the last one of which ends at t if it has not
// before.
func (ls loads) ended(t tracefs.Time) loads {
	if n := len(ls); n > 0 && ls[n-1].to == Forever {
		ls = slices.Clone(ls)
		ls[n-1].to = max(t, ls[n-1].from)
	}
	return ls
}

// loaded returns when the last load ended, 0 if there was none.
func (s *Space) loaded() (end tracefs.Time) {
	s.chain(func(link *Space, _ int) bool {
		if n := len(link.loads); n > 0 {
			end = link.loads[n-1].to
		}
		return end == 0
	})
	return end
}

// until returns the loads that had ended at t.
func (ls loads) until(t tracefs.Time) loads { return ls[:len(ls)-len(ls.since(t))] }

// since returns the loads that had not ended at t.
func (ls loads) since(t tracefs.Time) loads {
	i := 0
	for i < len(ls) && ls[i].to <= t {
		i++
	}
	return ls[i:]
}

// Program returns the mapping of code of the program itself that a process was
// running at a time: the kernel maps it first (load_elf_binary in
// fs/binfmt_elf.c). It is nil if the process was not seen to execute it.
func (s *Space) Program(t tracefs.Time) *Mapping {
	began, exact := s.BeganExactly(t)
	v := s.At(began)
	if !exact || v == nil {
		return nil
	}
	var first *Mapping
	for m := range v.Mappings.All() {
		if m.Exact && m.Since >= began && m.File.Kind.HasFile() && (first == nil || m.Since < first.Since) {
			first = m
		}
	}
	if first == nil || !s.Loading(began, began+1) || !s.Loading(first.Since, first.Since+1) {
		return nil // made by fork, or mapped later
	}
	return first
}
