package space

import (
	"iter"
	"slices"

	"ustack/tracefs"
)

// A Space is changed by copying it. So that a process that changes all the time
// costs no more with each change, only its last versions are copied: the others
// stand in a chain of spaces, which all later ones share.

// chunk is how many versions a link of the chain has, and at least how many are
// left to be changed.
const chunk = 64

// shed moves the first versions into the chain, when there are many. The first
// one that stays is in the chain too: a lookup there sees what came next.
func (s *Space) shed() {
	if len(s.versions) < 2*chunk {
		return
	}
	border := s.versions[chunk].From
	s.older = &Space{PID: s.PID, versions: s.versions[: chunk+1 : chunk+1], loads: s.loads.until(border), older: s.older, forked: s.forked, first: s.first}
	for i := range chunk {
		if parent := s.versions[i].Parent; parent != 0 {
			s.forked = parent
		}
	}
	s.versions, s.loads = slices.Clone(s.versions[chunk:]), s.loads.since(border)
}

// fixed reports whether what was at a time can be changed no more: it stands in
// the chain. So does the first version that does not only stand there.
func (s *Space) fixed(t tracefs.Time) bool {
	return s != nil && s.older != nil && len(s.versions) > 1 && t < s.versions[1].From
}

// of returns the link of the chain that has the versions of a time.
func (s *Space) of(t tracefs.Time) *Space {
	for s != nil && s.older != nil && len(s.versions) > 0 && t < s.versions[0].From {
		s = s.older
	}
	return s
}

// Between returns the versions that were in force between two times, both included, the
// newest first.
func (s *Space) Between(from, to tracefs.Time) iter.Seq[*Version] {
	return func(yield func(*Version) bool) {
		for link := s.of(to); link != nil; link = link.older {
			for i := len(link.versions) - 1; i >= 0; i-- {
				v := &link.versions[i]
				if v.From > to {
					continue
				}
				if v.To <= from || !yield(v) {
					return
				}
				to = v.From - 1 // the next link has the first version of this one, too
			}
		}
	}
}

// chain calls fn with the links, the newest first, and with how many versions
// came after each, until it returns false.
func (s *Space) chain(fn func(link *Space, newer int) bool) {
	newer := 0
	for link := s; link != nil && fn(link, newer); link = link.older {
		newer += link.own()
	}
}

// own returns how many versions a link has that are in no newer one, or the
// Space itself has.
func (s *Space) own() int { return max(len(s.versions)-1, 0) }

// cut returns the space without the links from the first one on of which drop
// says so, the space itself if that is none.
func (s *Space) cut(drop func(link *Space, newer int) bool) *Space {
	var kept []*Space
	whole := true
	s.chain(func(link *Space, newer int) bool {
		if link != s && drop(link, newer) {
			whole = false
			return false
		}
		kept = append(kept, link)
		return true
	})
	if whole {
		return s
	}
	var older *Space
	for _, link := range slices.Backward(kept) {
		next := *link
		if next.older = older; older == nil && len(next.versions) > 0 {
			next.first = programOf(s, next.versions[0].From)
		}
		older = &next
	}
	return older
}

// bounded returns the space with so many versions at most.
func (s *Space) bounded(most int) *Space {
	return s.cut(func(link *Space, newer int) bool { return newer+link.own() >= most })
}

// since returns the space without links that ended before a time.
func (s *Space) since(t tracefs.Time) *Space {
	return s.cut(func(link *Space, _ int) bool {
		n := link.own()
		return n == 0 || link.versions[n-1].To <= t
	})
}
