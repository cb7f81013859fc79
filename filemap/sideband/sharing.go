package sideband

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// sharers are processes that share their memory: made by clone with CLONE_VM and
// without CLONE_THREAD, or by vfork, until they execute a program or end. All of
// them have what one of them maps.
type sharers struct{ of map[int]*group }

// group is a set of processes that share their memory, two at least.
type group struct {
	pids []int
	// broken: there are too many to note each change for each.
	broken bool
}

// maxSharing is how many processes may share their memory. The changes of more
// of them go unseen, see space.Version.Unseen.
const maxSharing = 64

// all returns the processes that share the memory of one, itself among them.
func (s *sharers) all(pid int) []int {
	if g := s.of[pid]; g != nil && !g.broken {
		return g.pids
	}
	return nil
}

// join notes that two processes share their memory. broken reports that they are
// too many now.
func (s *sharers) join(parent, child int) (g *group, broken bool) {
	if s.of == nil {
		s.of = make(map[int]*group)
	}
	g = s.of[parent]
	if g == nil {
		g = &group{pids: []int{parent}}
		s.of[parent] = g
	}
	if s.of[child] == g {
		return g, false
	}
	s.leave(child)
	if len(g.pids) >= maxSharing {
		g.broken = true
	}
	g.pids = append(g.pids, child)
	s.of[child] = g
	return g, g.broken
}

// groups returns the groups of which all is noted.
func (s *sharers) groups() (list []*group) {
	for pid, g := range s.of {
		if !g.broken && g.pids[0] == pid {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *group) int { return a.pids[0] - b.pids[0] })
	return list
}

// leave notes that a process has its own memory, or ended.
func (s *sharers) leave(pid int) {
	g := s.of[pid]
	if g == nil {
		return
	}
	delete(s.of, pid)
	if i := slices.Index(g.pids, pid); i >= 0 {
		g.pids = slices.Delete(g.pids, i, i+1)
	}
	if len(g.pids) == 1 {
		delete(s.of, g.pids[0])
	}
}

// shared notes that a process was made at t that shares the memory of its parent.
func (h *History) shared(parent, child int, t tracefs.Time) {
	h.log.shared(parent, child, t)
	g, broken := h.sharers.join(parent, child)
	if broken {
		for _, pid := range g.pids {
			h.Spaces.Unseen(pid, t)
		}
	}
}

// unshared notes that a process is known by t to have its own memory.
func (h *History) unshared(pid int, t tracefs.Time) {
	h.log.unshared(pid, t)
	h.sharers.leave(pid)
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
	return pid == other || slices.Contains(h.sharers.all(pid), other)
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
	h.each(pid, func(pid int) { news = h.Spaces.MapExact(pid, m, t) || news })
	return news
}
