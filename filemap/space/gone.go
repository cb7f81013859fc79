package space

import (
	"iter"
	"slices"
	"sort"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// gone are the addresses at which a process has had code that was removed, and when that was
// last: in order, without overlap. They are known for as long as the process runs its program,
// when the versions of that time are forgotten. They are never changed.
type gone []removal

// removal is code that was removed. One at 0 is code that a reading has found to be not executable
// any more: its memory has stayed, and is noted when it goes.
type removal struct {
	addresses
	t tracefs.Time
}

// maxGone bounds the removals of a process. Of more, those that are nearest to each other
// become one, with what is between them.
const maxGone = 256

const removalBytes = 24

// RemovedSince reports whether code of a process may have been removed at an address after a
// time, while the process was followed and ran the program that it runs now. It does not
// matter how long ago that was. It is false for what was lost, and not read since.
func RemovedSince(s *Space, addr uint64, t tracefs.Time) bool {
	if s == nil {
		return false
	}
	i := sort.Search(len(s.gone), func(i int) bool { return s.gone[i].end > addr })
	return i < len(s.gone) && s.gone[i].start <= addr && s.gone[i].t > t
}

// removing returns a space that was made of another one, or is the same, with other removals.
func removing(old, next *Space, g gone) *Space {
	switch {
	case next != old:
	case slices.Equal(g, old.gone):
		return old
	default:
		next = old.copy(old.PID, old.changed)
	}
	next.gone = g
	return next
}

// without returns the removals with the code of some mappings that at t has gone between two
// addresses.
func (g gone) without(ms iter.Seq[*Mapping], start, end uint64, t tracefs.Time) gone {
	for m := range ms {
		if m.Since <= t {
			g = g.lost(m, addresses{max(m.Start, start), min(m.End, end)}, t)
		}
	}
	return g
}

// missing notes the code that was there before, and is not there any more at t.
func (g gone) missing(before, now Mappings, t tracefs.Time) gone {
	for m := range before.All() {
		all := addresses{m.Start, m.End}
		if m.Perms&procmap.Exec == 0 && len(g.between(all)) == 0 {
			continue
		}
		rest := unknown{all}
		for n := range now.Between(m.Start, m.End) {
			rest = rest.without(addresses{n.Start, n.End})
			if m.Perms&procmap.Exec != 0 && n.Perms&procmap.Exec == 0 {
				g = g.with(removal{addresses{max(m.Start, n.Start), min(m.End, n.End)}, 0})
			}
		}
		for _, a := range rest {
			g = g.lost(m, a, t)
		}
	}
	return g
}

// lost notes that a part of a mapping has gone at t: all of it if it was code, else where code
// was once.
func (g gone) lost(m *Mapping, part addresses, t tracefs.Time) gone {
	if m.Perms&procmap.Exec != 0 {
		return g.with(removal{part, t})
	}
	for _, r := range g.between(part) {
		g = g.with(removal{addresses{max(r.start, part.start), min(r.end, part.end)}, t})
	}
	return g
}

// between returns the removals of which a part is among some addresses.
func (g gone) between(a addresses) gone {
	from := sort.Search(len(g), func(i int) bool { return g[i].end > a.start })
	to := from
	for to < len(g) && g[to].start < a.end {
		to++
	}
	return g[from:to]
}

// with returns the removals with another one.
func (g gone) with(r removal) gone {
	from := sort.Search(len(g), func(i int) bool { return g[i].end > r.start })
	to := from
	var left, right gone
	for ; to < len(g) && g[to].start < r.end; to++ {
		old := g[to]
		if old.start < r.start {
			left = gone{{addresses{old.start, r.start}, old.t}}
		}
		if old.end > r.end {
			right = gone{{addresses{r.end, old.end}, old.t}}
		}
		r.t = max(r.t, old.t) // it is noted out of order
	}
	next := slices.Concat(g[:from], left, gone{r}, right, g[to:])
	for len(next) > maxGone {
		next = next.fewer()
	}
	return next
}

// fewer makes one of the two removals that are nearest to each other. It changes them.
func (g gone) fewer() gone {
	at := 1
	for i := 2; i < len(g); i++ {
		if g[i].start-g[i-1].end < g[at].start-g[at-1].end {
			at = i
		}
	}
	g[at-1].end, g[at-1].t = g[at].end, max(g[at-1].t, g[at].t)
	return slices.Delete(g, at, at+1)
}

// after returns the removals after a time.
func (g gone) after(t tracefs.Time) gone {
	if !slices.ContainsFunc(g, func(r removal) bool { return r.t <= t }) {
		return g
	}
	var next gone
	for _, r := range g {
		if r.t > t {
			next = append(next, r)
		}
	}
	return next
}

// one returns the removals as one.
func (g gone) one() gone {
	if len(g) < 2 {
		return g
	}
	all := removal{addresses{g[0].start, g[len(g)-1].end}, 0}
	for _, r := range g {
		all.t = max(all.t, r.t)
	}
	return gone{all}
}
