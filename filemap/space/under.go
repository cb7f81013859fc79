package space

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// ReplaceUnder notes a reading, begun at t, of a process that has changed since:
// what is known to have been mapped after t stays, on top of it. Replace refuses
// such a reading. If the process has executed a program, was made or has ended
// after t, all is known without it. A process that was started at another time is
// another one of the same number: nothing of before t is its. For after, see ReplaceAfter.
func (s *Spaces) ReplaceUnder(p *procmap.Process, t, after tracefs.Time) bool {
	is32 := s.compats.read(p)
	return s.update(p.PID, func(old *Space) *Space {
		v := old.last()
		switch {
		case v == nil && old != nil && t < old.changed, v != nil && (v.Forgotten || old.remadeSince(t)):
			return old
		case v == nil:
			return old.with(p.PID, s.files.found(p, t, after))
		case v.isOther(p) && v.From >= t:
			return old
		case v.isOther(p):
			next := s.files.found(p, t, after)
			next.Mappings = next.Mappings.topped(v.Mappings, t)
			return old.with(p.PID, next)
		}
		next := *v
		next.Unseen = v.Unseen || is32
		next.Mappings, _, _, _ = s.merge(v, p.Mappings, t, after)
		next.Mappings = next.Mappings.topped(v.Mappings, t)
		if next.StartTime == 0 {
			next.StartTime = p.Stat.StartTime
		}
		if next.Comm == "" {
			next.Comm = p.Stat.Comm
		}
		switch {
		case next.StartTime == v.StartTime && next.Comm == v.Comm && next.Unseen == v.Unseen && next.Mappings.same(v.Mappings):
			return old
		case v.From >= t || next.hasAll(v):
			return old.grown(len(old.versions)-1, t, next)
		}
		next.From, next.Fresh, next.Exact, next.Parent = t, false, false, 0
		return old.with(p.PID, next)
	})
}

// found is a process of which nothing is known but a reading, begun at t.
func (fs *files) found(p *procmap.Process, t, after tracefs.Time) Version {
	return Version{From: t, Fresh: true, StartTime: p.Stat.StartTime, Comm: p.Stat.Comm, Unseen: Compat(p.Mappings),
		Mappings: Mappings{build(fs.convert(p.Mappings, t, after))}}
}

// isOther reports whether a process that was read is another one of the same number.
func (v *Version) isOther(p *procmap.Process) bool {
	return v.StartTime != 0 && v.StartTime != p.Stat.StartTime
}

// topped is m with what of later is known to have been mapped after t on top of it.
func (m Mappings) topped(later Mappings, t tracefs.Time) Mappings {
	for mapping := range later.All() {
		if mapping.Exact && mapping.Since > t {
			m, _ = m.put(*mapping)
		}
	}
	return m
}

// remadeSince reports whether the process was made, or executed a program,
// after t.
func (s *Space) remadeSince(t tracefs.Time) bool {
	found := false
	s.chain(func(link *Space, _ int) bool {
		found = slices.ContainsFunc(link.versions, func(v Version) bool { return v.Exact && v.From > t })
		return !found && link.of(t) != link // what is older is of before
	})
	return found
}

// hasAll reports whether a version has all that another one has.
func (v *Version) hasAll(o *Version) bool {
	for was := range o.Mappings.All() {
		if m := v.Find(was.Start); m == nil || !m.covers(was) {
			return false
		}
	}
	return true
}
