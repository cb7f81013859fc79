package space

import (
	"ustack/filemap/elfid"
	"ustack/tracefs"
)

// Written notes that files, those of which is says so, were written in place after
// t: who has them mapped runs what is in them now, of which the build ID is not
// known.
func (s *Spaces) Written(is func(*File) bool, t tracefs.Time) {
	s.Snapshot().Each(func(sp *Space) bool {
		if sp.maps(is, t) {
			s.update(sp.PID, func(old *Space) *Space { return old.written(s, is, t) })
		}
		return true
	})
}

// maps reports whether one of the files is mapped at t or after.
func (s *Space) maps(is func(*File) bool, t tracefs.Time) bool {
	for i := range s.versions {
		if s.versions[i].To <= t {
			continue
		}
		for m := range s.versions[i].Mappings.All() {
			if is(m.File) {
				return true
			}
		}
	}
	return false
}

// written returns the space with the files without their build IDs from t on.
func (s *Space) written(all *Spaces, is func(*File) bool, t tracefs.Time) *Space {
	if s == nil || s.fixed(t) {
		return s
	}
	next := s
	if i := s.at(t); i >= 0 && s.versions[i].From < t {
		v := s.versions[i]
		v.From, v.Fresh, v.Exact, v.Parent = t, false, false, 0
		next = s.with(s.PID, v)
	} else {
		next = s.copy(s.PID, t)
	}
	for i := range next.versions {
		v := &next.versions[i]
		if v.From < t {
			continue
		}
		ms := v.Mappings
		for m := range v.Mappings.All() {
			if !is(m.File) {
				continue
			}
			f, part := *m.File, *m
			f.BuildID = elfid.ID{}
			part.File, part.Since = all.files.intern(f), max(m.Since, t)
			ms, _ = ms.put(part)
		}
		v.Mappings = ms
	}
	return next
}
