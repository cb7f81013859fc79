package sideband

import (
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// perf does not record whether a process shares its memory with the one that made it (CLONE_VM
// without CLONE_THREAD, vfork). Until it executes a program or ends it may do so: what one of the
// two maps can be in the other, too.

// kin are the processes that may share their memory: trees of those that have come of one
// another by fork and have not executed a program since.
type kin struct {
	of map[int]*relative
	// looked is how many processes, and mappings of them, were looked at for mappings of others.
	looked int
	// most is maxLooked, but in tests.
	most int
}

// relative is a process in a tree, or one that was: pid is 0 then, and there are two children at
// least, or it would be left out.
type relative struct {
	pid      int
	parent   *relative
	children []*relative
	at       int // among the parent's children
	// since is when it, or the process in its place, was made.
	since tracefs.Time
}

// maxLooked bounds the time for all mappings of a recording, and maxKin the memory.
const (
	maxLooked = 1 << 24
	maxKin    = 1 << 20
)

// forked notes that a process was made. It reports whether there is room.
func (k *kin) forked(parent, child int, t tracefs.Time) bool {
	k.leave(child)
	switch {
	case parent <= 0 || child <= 0 || parent == child:
		return true
	case len(k.of) >= maxKin:
		return false
	}
	if k.of == nil {
		k.of = make(map[int]*relative)
	}
	p := k.of[parent]
	if p == nil {
		p = &relative{pid: parent}
		k.of[parent] = p
	}
	c := &relative{pid: child, since: t}
	k.of[child] = c
	p.adopt(c, len(p.children))
	return true
}

// adopt makes c the child of a number, which can be the next one.
func (n *relative) adopt(c *relative, at int) {
	c.parent, c.at = n, at
	if at == len(n.children) {
		n.children = append(n.children, c)
		return
	}
	n.children[at] = c
}

// leave notes that a process has memory of its own, or has ended.
func (k *kin) leave(pid int) {
	n := k.of[pid]
	if n == nil {
		return
	}
	delete(k.of, pid)
	n.pid = 0
	for n != nil && (n.pid == 0 || n.parent == nil) && len(n.children) == 0 {
		delete(k.of, n.pid)
		n = n.remove()
	}
	if n != nil && n.pid == 0 && len(n.children) == 1 {
		c := n.children[0]
		if n.replace(c); c.parent == nil && len(c.children) == 0 {
			delete(k.of, c.pid)
		}
	}
}

// remove takes a process without children out of its tree, and returns its parent.
func (n *relative) remove() *relative {
	p := n.parent
	if p != nil {
		last := len(p.children) - 1
		p.adopt(p.children[last], n.at)
		p.children = p.children[:last]
	}
	return p
}

// replace puts the only child of a process in its place.
func (n *relative) replace(c *relative) {
	c.parent = nil
	if n.parent != nil {
		c.since = n.since
		n.parent.adopt(c, n.at)
	}
}

// each calls fn with the processes that may have what pid maps. Of the memory of each only that is
// meant which was there by a time: two processes that were made by a third one most likely do
// not share what each of them has mapped. It reports false if that takes too much time.
func (k *kin) each(pid int, fn func(pid int, until tracefs.Time)) bool {
	n := k.of[pid]
	if n == nil {
		return true
	}
	for _, c := range n.children {
		if !k.below(c, space.Forever, fn) {
			return false
		}
	}
	for ; n.parent != nil; n = n.parent {
		if k.looked++; k.looked > k.most {
			return false
		}
		if p := n.parent; p.pid != 0 {
			fn(p.pid, space.Forever)
		}
		for _, c := range n.parent.children {
			if c != n && !k.below(c, c.since, fn) {
				return false
			}
		}
	}
	return true
}

// below calls fn with a process and all that have come of it.
func (k *kin) below(n *relative, until tracefs.Time, fn func(pid int, until tracefs.Time)) bool {
	for list := []*relative{n}; len(list) > 0; {
		n, list = list[len(list)-1], list[:len(list)-1]
		if k.looked++; k.looked > k.most {
			return false
		}
		if n.pid != 0 {
			fn(n.pid, until)
		}
		list = append(list, n.children...)
	}
	return true
}

// over makes unknown what other processes have where one has mapped code, if it is other code and
// they may share their memory.
func (r *Recorded) over(pid int, m *procmap.Mapping, t tracefs.Time) {
	if m.Perms&procmap.Exec == 0 {
		return
	}
	ok := r.kin.each(pid, func(other int, until tracefs.Time) {
		v := r.History.Spaces.Space(other).At(t)
		if v == nil {
			return
		}
		for was := range v.Mappings.Between(m.Start, m.End) {
			if r.kin.looked++; r.kin.looked > r.kin.most {
				return
			}
			if was.Since > until || was.Perms&procmap.Exec == 0 || sameCode(was, m) {
				continue
			}
			r.History.unknown(other, max(was.Start, m.Start), min(was.End, m.End), t)
			if r.Changed != nil {
				r.Changed(other, t)
			}
		}
	})
	if !ok || r.kin.looked > r.kin.most {
		r.untracked(t)
	}
}

// sameCode reports whether a mapping has what another one has at its addresses.
func sameCode(was *space.Mapping, m *procmap.Mapping) bool {
	f := was.File
	return f.Kind == m.Kind && f.Name == m.Name && f.Dev == m.Dev && f.Inode == m.Inode && f.Generation == m.Generation && f.BuildID == m.BuildID &&
		(!f.Kind.HasFile() || was.Offset-was.Start == m.Offset-m.Start)
}

// untracked notes that from t on processes were not looked at for what others map: as after a
// loss without end.
func (r *Recorded) untracked(t tracefs.Time) { r.untrackedSince = min(r.untrackedSince, t) }
