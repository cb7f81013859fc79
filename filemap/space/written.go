package space

import (
	"slices"

	"ustack/filemap/elfid"
	"ustack/tracefs"
)

// Written notes that the files for which is returns true were written in place
// after t: processes that have them mapped run what is in them now, and its build
// ID is unknown.
func (s *Spaces) Written(is func(*File) bool, t tracefs.Time) {
	w := &writing{all: s, is: is, t: t, without: make(map[*node]bool), done: make(map[*node]*node)}
	s.Snapshot().Each(func(sp *Space) bool {
		if w.mapped(sp) {
			s.update(sp.PID, func(old *Space) *Space { return w.space(old) })
		}
		return true
	})
}

// writing is what becomes of mappings whose files were written. The mappings of one time share
// most of their nodes with those of the next one, and a child's with its parent's: each node is
// looked at once, and what is made of it is shared as well. So neither time nor memory grows with
// the product of mappings and changes.
type writing struct {
	all *Spaces
	is  func(*File) bool
	t   tracefs.Time
	// without are nodes below which none of the files is mapped, done is what became of others.
	without map[*node]bool
	done    map[*node]*node
}

// mapped reports whether a space has one of the files mapped at the time or after.
func (w *writing) mapped(s *Space) (found bool) {
	s.chain(func(link *Space, _ int) bool {
		for i := range link.versions {
			if v := &link.versions[i]; v.To > w.t && w.has(v.Mappings.root) {
				found = true
				return false
			}
		}
		return len(link.versions) > 0 && w.t < link.versions[0].From
	})
	return found
}

func (w *writing) has(n *node) bool {
	if n == nil || w.without[n] {
		return false
	}
	if w.is(n.File) || w.has(n.left) || w.has(n.right) {
		return true
	}
	w.without[n] = true
	return false
}

// space returns the space with the files without their build IDs from the time on. That
// can be long ago for a process that changes all the time: the chain from then on
// is made anew, or the ID would stay for good.
func (w *writing) space(s *Space) *Space {
	if s == nil || len(s.versions) == 0 {
		return s
	}
	next := s.copy(s.PID, w.t)
	if w.t < s.versions[0].From {
		next.older = w.space(s.older)
	}
	if i := s.at(w.t); i >= 0 && s.versions[i].From < w.t {
		v := s.versions[i]
		v.From, v.Fresh, v.Exact, v.Parent = w.t, false, false, 0
		next.versions[i].To = w.t
		next.versions = slices.Insert(next.versions, i+1, v)
	}
	for i := range next.versions {
		if v := &next.versions[i]; v.From >= w.t {
			v.Mappings.root = w.node(v.Mappings.root)
		}
	}
	return next
}

// node returns a node with the files without their build IDs.
func (w *writing) node(n *node) *node {
	if n == nil || w.without[n] {
		return n
	}
	out, ok := w.done[n]
	if ok {
		return out
	}
	out = n
	left, right, is := w.node(n.left), w.node(n.right), w.is(n.File)
	if is || left != n.left || right != n.right {
		out = &node{Mapping: n.Mapping, left: left, right: right, size: n.size}
	}
	if is {
		f := *n.File
		f.BuildID = elfid.ID{}
		out.File, out.Since = w.all.files.intern(f), max(n.Since, w.t)
	}
	w.done[n] = out
	return out
}
