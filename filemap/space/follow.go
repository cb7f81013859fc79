package space

import "ustack/tracefs"

// A process can change what others map, too, so many of them that noting it for each
// is out of the question. Those are not followed: nothing is known of them.

// Forget notes that from t on it is unknown what a process has mapped, whatever is
// noted or read, until Follow, or until it is made anew or executes a program.
func Forget(s *Spaces, pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space { return old.forgetFrom(pid, t) })
}

// forgetFrom returns the space with nothing known from t on. What was read after t is
// forgotten, too: it may be out of date already.
func (s *Space) forgetFrom(pid int, t tracefs.Time) *Space {
	if s.fixed(t) {
		t = s.versions[1].From // what is older cannot be changed
	}
	v := Version{From: t}
	if i := s.at(t); i >= 0 {
		if v = s.versions[i]; v.From < t {
			v.From, v.Fresh, v.Exact, v.Parent = t, false, false, 0
		}
	}
	next := s.with(pid, v.forgotten())
	for i := range next.versions { // a copy
		if next.versions[i].From > t {
			if next.versions[i].Exact {
				break
			}
			next.versions[i] = next.versions[i].forgotten()
		}
	}
	return next
}

// forgotten returns the version without what it had.
func (v Version) forgotten() Version {
	v.Mappings, v.unknown, v.Partial, v.Forgotten = Mappings{}, nil, true, true
	return v
}

// Follow notes that what a process maps from t on is noted again. What it has besides
// is unknown until it is read.
func Follow(s *Spaces, pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		i := old.at(t)
		if i < 0 || !old.versions[i].Forgotten {
			return old
		}
		v := old.versions[i]
		if v.Forgotten = false; v.From == t {
			return old.grown(i, t, v)
		}
		v.From, v.Fresh, v.Exact, v.Parent = t, false, false, 0
		return old.with(pid, v)
	})
}
