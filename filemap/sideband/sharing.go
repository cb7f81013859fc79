package sideband

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// sharers are processes that share their memory: made by clone with CLONE_VM and
// without CLONE_THREAD, or by vfork, until they execute a program or end. All of
// them have what one of them maps.
type sharers struct{ of map[int]*group }

// group is a set of processes that share their memory, two at least.
type group struct {
	pids []int
	// broken: there are too many to note each change for each. Nothing is known of
	// them, see space.Forget, until they are half of that.
	broken bool
}

// maxSharing is how many processes may share their memory to be followed.
const maxSharing = 64

// all returns the processes that share the memory of one and are followed, itself
// among them.
func (s *sharers) all(pid int) []int {
	if g := s.of[pid]; g != nil && !g.broken {
		return g.pids
	}
	return nil
}

// with returns the processes that share the memory of one, itself among them, whether they
// are followed or not.
func (s *sharers) with(pid int) []int {
	if g := s.of[pid]; g != nil {
		return g.pids
	}
	return []int{pid}
}

// join notes that two processes share their memory, and returns those that are not
// followed any more: there are too many.
func (s *sharers) join(parent, child int) (lost []int) {
	if s.of == nil {
		s.of = make(map[int]*group)
	}
	g := s.of[parent]
	if g == nil {
		g = &group{pids: []int{parent}}
		s.of[parent] = g
	}
	if s.of[child] == g {
		return nil
	}
	g.pids = append(g.pids, child)
	s.of[child] = g
	switch {
	case g.broken:
		return g.pids[len(g.pids)-1:]
	case len(g.pids) > maxSharing:
		g.broken = true
		return g.pids
	}
	return nil
}

// groups returns the groups that are followed, and broken the others.
func (s *sharers) groups() []*group { return s.list(false) }
func (s *sharers) broken() []*group { return s.list(true) }

func (s *sharers) list(broken bool) (list []*group) {
	for pid, g := range s.of {
		if g.broken == broken && g.pids[0] == pid {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *group) int { return a.pids[0] - b.pids[0] })
	return list
}

// leave notes that a process has its own memory, or ended, and returns those that are
// followed again: few enough are left.
func (s *sharers) leave(pid int) (again []int) {
	g := s.of[pid]
	if g == nil {
		return nil
	}
	delete(s.of, pid)
	if i := slices.Index(g.pids, pid); i >= 0 {
		g.pids = slices.Delete(g.pids, i, i+1)
	}
	if g.broken && len(g.pids) <= maxSharing/2 {
		g.broken = false
		again = g.pids
	}
	if len(g.pids) == 1 {
		delete(s.of, g.pids[0])
	}
	return again
}

// shared notes that a process was made at t that shares the memory of its parent.
func (h *History) shared(parent, child int, t tracefs.Time) {
	h.log.shared(parent, child, t)
	if !h.shares(parent, child) {
		h.left(child, t)
	}
	for _, pid := range h.sharers.join(parent, child) {
		space.Forget(h.Spaces, pid, t)
	}
}

// inherits notes that a process that its parent has just made has all that the parent has at t:
// other threads can have changed that since.
func (h *History) inherits(parent, child int, t tracefs.Time) {
	h.log.inherits(parent, child, t)
	made := t
	if v := h.Spaces.Space(child).At(t); v != nil && v.Parent == parent {
		made = v.From
	}
	h.Spaces.Share(parent, child, made, t)
}

// unshared notes that a process is known by t to have its own memory.
func (h *History) unshared(pid int, t tracefs.Time) {
	h.log.unshared(pid, t)
	h.left(pid, t)
}

// left notes that a process does not share its memory any more from t on.
func (h *History) left(pid int, t tracefs.Time) {
	for _, other := range h.sharers.leave(pid) {
		space.Follow(h.Spaces, other, t)
	}
}

// each calls fn with all processes that share the memory of one.
func (h *History) each(pid int, fn func(pid int)) {
	all := h.sharers.all(pid)
	if all == nil {
		fn(pid)
		return
	}
	for _, pid := range all {
		fn(pid)
	}
}

// shares reports whether two processes have the same memory.
func (h *History) shares(pid, other int) bool {
	g := h.sharers.of[pid]
	return pid == other || g != nil && g == h.sharers.of[other]
}

// unmapped notes that from t on a process has nothing between two addresses, most
// likely, until it is seen to have something.
func (h *History) unmapped(pid int, start, end uint64, t tracefs.Time) {
	h.each(pid, func(pid int) {
		if h.Spaces.Unmap(pid, start, end, t) {
			h.log.unmapped(pid, start, end, t)
		}
	})
}

// unknown notes that from t on it is unknown what a process has between two
// addresses, until it is seen.
func (h *History) unknown(pid int, start, end uint64, t tracefs.Time) {
	h.each(pid, func(pid int) {
		if h.Spaces.Unknown(pid, start, end, t) {
			h.log.unknown(pid, start, end, t)
		}
	})
}

// mapped notes a mapping of a process, and reports whether it was news.
func (h *History) mapped(pid int, m *procmap.Mapping, t tracefs.Time) (news bool) {
	h.log.mapped(pid, m, t)
	delete(h.executing, pid)
	h.each(pid, func(pid int) { news = h.Spaces.MapExact(pid, m, t) || news })
	return news
}
