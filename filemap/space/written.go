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
	s.Snapshot().Each(func(sp *Space) bool {
		if sp.maps(is, t) {
			s.update(sp.PID, func(old *Space) *Space { return old.written(s, is, t) })
		}
		return true
	})
}

// maps reports whether one of the files is mapped at t or after.
func (s *Space) maps(is func(*File) bool, t tracefs.Time) (found bool) {
	s.chain(func(link *Space, _ int) bool {
		for i := range link.versions {
			if link.versions[i].To <= t {
				continue
			}
			for m := range link.versions[i].Mappings.All() {
				if is(m.File) {
					found = true
					return false
				}
			}
		}
		return len(link.versions) > 0 && t < link.versions[0].From
	})
	return found
}

// written returns the space with the files without their build IDs from t on. That
// can be long ago for a process that changes all the time: the chain from then on
// is made anew, or the ID would stay for good.
func (s *Space) written(all *Spaces, is func(*File) bool, t tracefs.Time) *Space {
	if s == nil || len(s.versions) == 0 {
		return s
	}
	next := s.copy(s.PID, t)
	if t < s.versions[0].From {
		next.older = s.older.written(all, is, t)
	}
	if i := s.at(t); i >= 0 && s.versions[i].From < t {
		v := s.versions[i]
		v.From, v.Fresh, v.Exact, v.Parent = t, false, false, 0
		next.versions[i].To = t
		next.versions = slices.Insert(next.versions, i+1, v)
	}
	for i := range next.versions {
		if v := &next.versions[i]; v.From >= t {
			v.Mappings = v.Mappings.written(all, is, t)
		}
	}
	return next
}

// written returns the mappings with the files without their build IDs from t
// on.
func (ms Mappings) written(all *Spaces, is func(*File) bool, t tracefs.Time) Mappings {
	out := ms
	for m := range ms.All() {
		if !is(m.File) {
			continue
		}
		f, part := *m.File, *m
		f.BuildID = elfid.ID{}
		part.File, part.Since = all.files.intern(f), max(m.Since, t)
		out, _ = out.put(part)
	}
	return out
}
