package space

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// ReplaceUnder notes a reading, begun at t, of a process that has changed since:
// what is known to have been mapped after t stays, on top of it. Replace refuses
// such a reading. If the process has executed a program, was made or has ended
// after t, all is known without it. For after, see ReplaceAfter.
func (s *Spaces) ReplaceUnder(p *procmap.Process, t, after tracefs.Time) bool {
	return s.update(p.PID, func(old *Space) *Space {
		v := old.last()
		switch {
		case v == nil && old != nil && t < old.changed, v != nil && (v.Forgotten || old.remadeSince(t)):
			return old
		case v == nil:
			return old.with(p.PID, Version{From: t, Fresh: true, StartTime: p.Stat.StartTime, Comm: p.Stat.Comm,
				Mappings: Mappings{build(s.files.convert(p.Mappings, t, after))}})
		}
		next := *v
		next.Mappings, _, _, _ = s.merge(v, p.Mappings, t, after)
		for m := range v.Mappings.All() {
			if m.Exact && m.Since > t {
				next.Mappings, _ = next.Mappings.put(*m)
			}
		}
		if next.StartTime == 0 {
			next.StartTime = p.Stat.StartTime
		}
		if next.Comm == "" {
			next.Comm = p.Stat.Comm
		}
		switch {
		case next.StartTime == v.StartTime && next.Comm == v.Comm && next.Mappings.same(v.Mappings):
			return old
		case v.From >= t || next.hasAll(v):
			return old.grown(len(old.versions)-1, t, next)
		}
		next.From, next.Fresh, next.Exact, next.Parent = t, false, false, 0
		return old.with(p.PID, next)
	})
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
