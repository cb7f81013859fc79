package space

import (
	"math"
	"slices"
	"sort"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// Forever is the end of what has not ended.
const Forever = tracefs.Time(math.MaxInt64)

// File is the object of a mapping: a file, or memory without one, by the kernel's
// name for it (see Kind). Files are interned: within one Spaces, equal pointers
// are equal files.
type File struct {
	Name    string // as procmap.Mapping.Name
	BuildID elfid.ID
	Inode   uint64
	Dev     procmap.Dev
	// Generation distinguishes files that had the same device and inode one after
	// the other.
	Generation uint32
	Kind       procmap.Kind
}

// Mapping is a part of an address space that belongs to one file.
type Mapping struct {
	Start, End uint64 // addresses; End is the first one after
	Offset     uint64 // where in the file Start is
	File       *File
	// Since is when the mapping came to light. It may be older, unless it is
	// Exact: then it was made at that very time.
	Since tracefs.Time
	// After is how far back it may be older: a lookup at a time before does not
	// find it, so answers about that time do not change.
	After tracefs.Time
	Perms procmap.Perms
	Exact bool
}

// samePlace reports whether two mappings are of the same addresses, at the
// same offset, with the same permissions.
func (m *Mapping) samePlace(o *Mapping) bool {
	return m.Start == o.Start && m.End == o.End && m.Offset == o.Offset && m.Perms == o.Perms
}

// covers reports whether a mapping has the same contents at all addresses of
// another one.
func (m *Mapping) covers(o *Mapping) bool {
	return m.Start <= o.Start && o.End <= m.End && m.File == o.File && m.Perms == o.Perms &&
		(o.Offset-o.Start == m.Offset-m.Start || !m.File.Kind.HasFile())
}

// renamed reports whether a mapping is the memory of another one, with the name
// that it got since: the kernel does not report that with a change of permissions.
func (m *Mapping) renamed(o *Mapping) bool {
	return m.File.Kind == procmap.AnonNamed && o.File.Kind == procmap.Anonymous && m.Start <= o.Start && o.End <= m.End
}

// Version is an address space during a time in which nothing went away from
// it; mappings that came have their time. It is never changed, and versions
// share what did not change.
type Version struct {
	// From and To bound the time; To is Forever for the present one.
	From, To tracefs.Time
	// StartTime is when the process began, in clock ticks since boot (field 22
	// of /proc/PID/stat), 0 if unknown: which process it was that had the PID.
	StartTime uint64
	Comm      string
	// Fresh: nothing in it was there in the version before: it is another
	// process, or the process has executed another program.
	Fresh bool
	// Exact: the process was made, or executed its program, at From and not
	// before.
	Exact bool
	// Parent is the process whose memory was copied at From, 0 if none was: the
	// version is as sure as the parent's was then.
	Parent int
	// Partial: the process had more than is known, and the next version does
	// not show what that was.
	Partial bool
	// Unseen: changes of it may go unseen, so none of its mappings is sure:
	// system calls of 32-bit processes on a 64-bit kernel are not traced as such.
	Unseen bool
	// Forgotten: it took too much memory, and is not followed any more (Partial).
	Forgotten bool
	Mappings  Mappings
	unknown   unknown // see Unknown
}

// Find returns the mapping that an address lies in, nil if there is none, or no
// version.
func (v *Version) Find(addr uint64) *Mapping {
	if v == nil {
		return nil
	}
	return v.Mappings.Find(addr)
}

// Whole reports whether all is known that the process had mapped.
func (v *Version) Whole() bool { return !v.Partial && len(v.unknown) == 0 }

// Space is what one PID had mapped over time. It is never changed.
type Space struct {
	PID int
	// versions are in order of time and do not overlap. Those before them are in
	// older, nil if there are none, or they have been forgotten.
	versions []Version
	older    *Space
	// forked is ForkedOf of the time before the first of versions.
	forked int
	// first is the program of the first of versions, if what was known of it before that has
	// been forgotten.
	first program
	// changed is the time of the last change.
	changed tracefs.Time
	loads   loads
	// gone is the code that was removed, see RemovedSince. The links of the chain do not have it.
	gone gone
}

// Versions returns the versions of the PID's address space, the oldest first.
// They must not be changed.
func (s *Space) Versions() []Version {
	if s == nil || s.older == nil {
		return s.recentVersions()
	}
	var all []Version
	s.chain(func(link *Space, newer int) bool {
		own := link.versions
		if newer > 0 {
			own = own[:link.own()]
		}
		all = append(slices.Clone(own), all...)
		return true
	})
	return all
}

func (s *Space) recentVersions() []Version {
	if s == nil {
		return nil
	}
	return s.versions
}

// Place is where an address was.
type Place struct {
	Mapping *Mapping
	// Offset is the address as an offset in the mapping's file.
	Offset uint64
	// Late is set if the mapping was first seen after the time asked for.
	Late bool
}

// Lookup finds what an address was at a time. If that time is unknown, or no
// mapping was known there then, the mapping that came to light next is taken as
// late, unless it is known to have come later (Exact). ok is false if there is
// nothing.
func (s *Space) Lookup(addr uint64, t tracefs.Time) (p Place, ok bool) {
	s = s.of(t)
	if s == nil || len(s.versions) == 0 {
		return Place{}, false
	}
	// The first version that had not ended then: in force at the time, or the next.
	i := sort.Search(len(s.versions), func(i int) bool { return s.versions[i].To > t })
	if i == len(s.versions) {
		return Place{}, false
	}
	v := &s.versions[i]
	m := v.Find(addr)
	late := t < v.From
	if late && v.Exact {
		return Place{}, false
	}
	if m == nil && !late && !v.Partial && i+1 < len(s.versions) && !s.versions[i+1].Fresh {
		m, late = s.versions[i+1].Find(addr), true
	}
	if m == nil || m.Exact && t < m.Since || t < m.After {
		return Place{}, false
	}
	return Place{Mapping: m, Offset: addr - m.Start + m.Offset, Late: late || v.Unseen || t < m.Since}, true
}

// At returns the version in force at a time, nil if there is none.
func (s *Space) At(t tracefs.Time) *Version {
	s = s.of(t)
	if i := s.at(t); i >= 0 {
		return &s.versions[i]
	}
	return nil
}

// program is when a program came to light.
type program struct {
	began tracefs.Time
	exact bool // the kernel reported when that was
	known bool
}

// Began returns when the program that was running at a time came to light: when
// the process was made, or executed it, if that was seen.
func (s *Space) Began(t tracefs.Time) tracefs.Time { return programOf(s, t).began }

// BeganExactly is Began, if the kernel reported when that was.
func (s *Space) BeganExactly(t tracefs.Time) (began tracefs.Time, ok bool) {
	p := programOf(s, t)
	return p.began, p.exact
}

// programOf returns the program that was running at a time.
func programOf(s *Space, t tracefs.Time) program {
	s = s.of(t)
	i := s.at(t)
	for i > 0 && !s.versions[i].Fresh && s.versions[i-1].To == s.versions[i].From {
		i--
	}
	if i < 0 {
		return program{}
	}
	v := &s.versions[i]
	switch {
	case i > 0 || v.Fresh:
	case s.older != nil:
		return programOf(s.older, v.From) // which has that version, too
	case s.first.known:
		return s.first
	}
	return program{v.From, v.Exact, true}
}

// ForkedOf returns the process that the one of a time was forked of, 0 if unknown.
func (s *Space) ForkedOf(t tracefs.Time) (pid int) {
	s = s.of(t)
	if s == nil {
		return 0
	}
	for _, v := range slices.Backward(s.versions) {
		if v.From <= t && v.Parent != 0 {
			return v.Parent
		}
	}
	return s.forked
}

// last returns the version still in force, nil if the process has ended.
func (s *Space) last() *Version {
	if s == nil || len(s.versions) == 0 {
		return nil
	}
	if v := &s.versions[len(s.versions)-1]; v.To == Forever {
		return v
	}
	return nil
}

// at returns the index of the version in force at a time, -1 if there is none,
// or none that can be changed any more.
func (s *Space) at(t tracefs.Time) int {
	if s == nil {
		return -1
	}
	i := sort.Search(len(s.versions), func(i int) bool { return s.versions[i].To > t })
	if i == len(s.versions) || t < s.versions[i].From {
		return -1
	}
	return i
}

// copy returns a copy of the space that may be changed, with its versions.
func (s *Space) copy(pid int, t tracefs.Time) *Space {
	next := &Space{PID: pid, changed: t}
	if s != nil {
		next.versions = slices.Clone(s.versions)
		next.changed = max(t, s.changed)
		next.loads, next.older, next.forked, next.first, next.gone = s.loads, s.older, s.forked, s.first, s.gone
	}
	return next
}

// with returns the space with a version that is in force from v.From until the
// one that was in force then ended, or the next one begins. Later versions
// stay: the news may be older than a reading that we have. A version older than
// all that can be changed is left out.
func (s *Space) with(pid int, v Version) *Space {
	if s.fixed(v.From) {
		return s
	}
	next := s.copy(pid, v.From)
	list := next.versions
	i := sort.Search(len(list), func(i int) bool { return list[i].From > v.From })
	v.To = Forever
	if i < len(list) {
		v.To = list[i].From
	}
	if i > 0 && list[i-1].To > v.From {
		v.To = list[i-1].To
		list[i-1].To = v.From
	}
	if i > 0 && list[i-1].From == list[i-1].To {
		list[i-1] = v
	} else {
		list = slices.Insert(list, i, v)
	}
	next.versions = list
	return next
}

// ended returns the space with what was in force at t ended then.
func (s *Space) ended(t tracefs.Time) *Space {
	i := s.at(t)
	if i < 0 || s.fixed(t) {
		return s
	}
	next := s.copy(s.PID, t)
	next.loads = next.loads.ended(t)
	next.versions[i].To = t
	if next.versions[i].From == t {
		next.versions = slices.Delete(next.versions, i, i+1)
	}
	if len(next.versions) == 0 {
		next.first = program{} // what comes is another one
	}
	return next
}

// then returns the space with the process of a version having other mappings
// from t on, in the time of that version, and u the addresses that are unknown.
func (s *Space) then(i int, t tracefs.Time, ms Mappings, u unknown) *Space {
	v := &s.versions[i]
	if v.From == t {
		same := *v
		same.Mappings, same.unknown = ms, u
		return s.grown(i, t, same)
	}
	return s.with(s.PID, Version{From: t, StartTime: v.StartTime, Comm: v.Comm, Partial: v.Partial, Unseen: v.Unseen, Forgotten: v.Forgotten, Mappings: ms, unknown: u})
}

// grown returns the space with a version replaced by one that has more.
func (s *Space) grown(i int, t tracefs.Time, v Version) *Space {
	if s.fixed(s.versions[i].From) {
		return s
	}
	next := s.copy(s.PID, t)
	next.versions[i] = v
	return next
}
