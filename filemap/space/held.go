package space

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// Held notes that from a time on until now a process had these mappings between two
// addresses, and nothing else there: nothing that can have changed them was under way.
// Parts of mappings outside are left out. The addresses must have been unknown since then
// (Unknown), or have held the same. It is about the program that runs now.
func (s *Spaces) Held(pid int, start, end uint64, in []procmap.Mapping, from tracefs.Time) {
	if start >= end {
		return
	}
	s.update(pid, func(old *Space) *Space {
		if old.forgotten(from) {
			return old
		}
		if old == nil || len(old.versions) == 0 {
			whole := unknown{{0, ^uint64(0)}}
			v := Version{From: from, Fresh: true, unknown: whole}.holding(addresses{start, end}, s.files.held(in, start, end, from))
			return old.with(pid, v)
		}
		if old.fixed(from) {
			from = old.versions[1].From
		}
		for i := len(old.versions) - 1; i >= 0; i-- {
			if v := &old.versions[i]; v.Fresh {
				from = max(from, v.From)
				break
			}
		}
		return old.held(addresses{start, end}, s.files.held(in, start, end, from), from)
	})
}

// held returns the parts of mappings between two addresses, as of a time.
func (fs *files) held(in []procmap.Mapping, start, end uint64, from tracefs.Time) []Mapping {
	out := fs.convert(in, from, from)
	out = slices.DeleteFunc(out, func(m Mapping) bool { return m.End <= start || end <= m.Start })
	for i := range out {
		m := &out[i]
		if m.Exact = true; m.Start < start {
			*m = m.from(start)
		}
		m.End = min(m.End, end)
	}
	return out
}

// held returns the space with all versions from a time on having the mappings.
func (s *Space) held(a addresses, ms []Mapping, from tracefs.Time) *Space {
	next := s.copy(s.PID, s.changed)
	changed := false
	list := make([]Version, 0, len(next.versions)+1)
	for _, v := range next.versions {
		if v.To <= from || v.knows(a, ms) {
			list = append(list, v)
			continue
		}
		changed = true
		if v.From < from {
			before := v
			before.To = from
			list = append(list, before)
			v.From, v.Fresh, v.Exact, v.Parent = from, false, false, 0
		}
		list = append(list, v.holding(a, ms))
	}
	if !changed {
		return s
	}
	next.versions = list
	return next
}

// knows reports whether a version has these mappings already, and nothing else, between
// two addresses.
func (v *Version) knows(a addresses, ms []Mapping) bool {
	if slices.ContainsFunc(v.unknown, func(b addresses) bool { return b.start < a.end && a.start < b.end }) {
		return false
	}
	i := 0
	for m := range v.Mappings.Between(a.start, a.end) {
		if i == len(ms) || !m.covers(&ms[i]) || max(m.Start, a.start) != ms[i].Start || min(m.End, a.end) != ms[i].End {
			return false
		}
		i++
	}
	return i == len(ms)
}

// Empty reports whether it is known that a version has nothing between two addresses.
func (v *Version) Empty(start, end uint64) bool {
	return v != nil && !v.Partial && v.knows(addresses{start, end}, nil)
}

// holding returns the version with these mappings between two addresses, and nothing else
// there.
func (v Version) holding(a addresses, ms []Mapping) Version {
	v.unknown = v.unknown.without(a)
	v.Mappings, _ = v.Mappings.cut(a.start, a.end)
	for i := range ms {
		v.Mappings, _ = v.Mappings.put(ms[i])
	}
	return v
}

// Resumed notes that what was unknown from a time on (Unknown) is not: a process has what
// it had before. It does nothing if something else has changed since.
func (s *Spaces) Resumed(pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		n := 0
		if old != nil {
			n = len(old.versions)
		}
		if n < 2 || old.fixed(t) || old.versions[n-1].From != t || old.versions[n-2].To != t || old.versions[n-1].Fresh {
			return old
		}
		next := old.copy(pid, t)
		next.versions[n-2].To = next.versions[n-1].To
		next.versions = next.versions[:n-1]
		return next
	})
}

// Lose notes that from a time on it is unknown what a process has, whatever has been noted of
// times after that.
func (s *Spaces) Lose(pid int, from tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		if old == nil || len(old.versions) == 0 || old.forgotten(from) {
			return old
		}
		if old.fixed(from) {
			from = old.versions[1].From
		}
		i := slices.IndexFunc(old.versions, func(v Version) bool { return v.To > from })
		if i < 0 {
			return old
		}
		next := old.copy(pid, from)
		last := next.versions[len(next.versions)-1]
		last.From, last.Mappings, last.unknown, last.Parent = max(from, next.versions[i].From), Mappings{}, unknown{{0, ^uint64(0)}}, 0
		last.Fresh, last.Exact = next.versions[i].Fresh && next.versions[i].From >= from, next.versions[i].Exact && next.versions[i].From >= from
		if next.versions[i].From < from {
			next.versions[i].To = from
			i++
		}
		next.versions = append(next.versions[:i], last)
		return next
	})
}
