package space

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// Replace notes what a process had mapped at t, when its mappings began to be read.
// It reports whether anything changed. A reading older than the last change is
// refused.
func (s *Spaces) Replace(p *procmap.Process, t tracefs.Time) bool { return s.ReplaceAfter(p, t, 0) }

// ReplaceAfter is Replace without effect on times before another one
// (Mapping.After).
func (s *Spaces) ReplaceAfter(p *procmap.Process, t, after tracefs.Time) bool {
	is32 := s.compats.read(p)
	return s.update(p.PID, func(old *Space) *Space {
		if old != nil && t < old.changed || old.forgotten(t) {
			return old
		}
		last := old.last()
		if last == nil || last.isOther(p) {
			return old.with(p.PID, s.files.found(p, t, after))
		}
		v := Version{From: t, To: Forever, StartTime: p.Stat.StartTime, Comm: p.Stat.Comm, Fresh: true, Unseen: last.Unseen || is32}
		kept, better := last.Mappings.Len(), false
		if equal(last.Mappings, p.Mappings) {
			v.Mappings = last.Mappings
		} else {
			v.Mappings, v.Fresh, kept, better = s.merge(last, p.Mappings, t, after)
		}
		if last.Partial || len(last.unknown) > 0 { // the news may be old
			v.Fresh = false
			return removing(old, old.with(p.PID, v), old.gone.missing(last.Mappings, v.Mappings, t))
		}
		if kept < last.Mappings.Len() {
			v.Fresh = v.Fresh || v.Comm != last.Comm
			return removing(old, old.with(p.PID, v), old.gone.missing(last.Mappings, v.Mappings, t))
		}
		v.From, v.Fresh, v.Exact, v.Parent = last.From, last.Fresh, last.Exact, last.Parent
		if v.Mappings.Len() == kept && !better && v.Comm == last.Comm && v.StartTime == last.StartTime && v.Unseen == last.Unseen {
			return old
		}
		return old.grown(len(old.versions)-1, t, v)
	})
}

// ReplacePart is Replace with mappings that are not all that the process had
// from t on, until it is read again.
func (s *Spaces) ReplacePart(p *procmap.Process, t tracefs.Time) {
	s.Replace(p, t)
	s.update(p.PID, func(old *Space) *Space {
		last := old.last()
		if last == nil {
			return old
		}
		v := *last
		v.Partial = true
		return old.grown(len(old.versions)-1, t, v)
	})
}

// merge replaces the mappings of a version by the mappings that a reading found.
// Mappings in both keep their time; kept counts them. fresh means that there is
// none but [vsyscall], which is the same everywhere; better, that the reading knows
// more about one of them.
func (s *Spaces) merge(last *Version, in []procmap.Mapping, t, after tracefs.Time) (out Mappings, fresh bool, kept int, better bool) {
	list := s.files.convert(in, t, after)
	fresh = true
	stays := make(map[uint64]bool, len(list))
	var news []Mapping
	for i := range list {
		m := &list[i]
		known := last.Find(m.Start)
		if known != nil && m.samePlace(known) {
			if f, ok := s.files.unite(known, m.File); ok {
				fresh = fresh && f.Kind == procmap.Vsyscall
				kept++
				stays[m.Start] = true
				if f == known.File {
					continue
				}
				m.File, m.Since, m.After, m.Exact, better = f, known.Since, known.After, known.Exact, true
			}
		}
		news = append(news, *m)
	}
	out = last.Mappings
	if kept < out.Len() {
		for m := range last.Mappings.All() {
			if !stays[m.Start] {
				out, _ = out.cut(m.Start, m.End)
			}
		}
	}
	for i := range news {
		out, _ = out.put(news[i])
	}
	return out, fresh, kept, better
}

// equal reports whether mappings are what we have, without making anything.
func equal(have Mappings, in []procmap.Mapping) bool {
	if have.Len() != len(in) {
		return false
	}
	i := 0
	for h := range have.All() {
		m := &in[i]
		if h.Start != m.Start || h.End != m.End || h.Offset != m.Offset || h.Perms != m.Perms || *h.File != fileOf(m) {
			return false
		}
		i++
	}
	return true
}

// convert returns mappings with their files interned, in order. If mappings
// overlap, because the process changed while it was read, the later one is
// right.
func (fs *files) convert(in []procmap.Mapping, t, after tracefs.Time) []Mapping {
	out := make([]Mapping, 0, len(in))
	for i := range in {
		m := fs.mapping(&in[i], t)
		m.After = after
		if m.Start >= m.End {
			continue
		}
		if n := len(out); n > 0 && out[n-1].End > m.Start {
			return fs.overlapping(in, t, after)
		}
		out = append(out, m)
	}
	return out
}

// overlapping is convert for mappings that overlap.
func (fs *files) overlapping(in []procmap.Mapping, t, after tracefs.Time) []Mapping {
	var all Mappings
	for i := range in {
		m := fs.mapping(&in[i], t)
		m.After = after
		if m.Start < m.End {
			all, _ = all.put(m)
		}
	}
	out := make([]Mapping, 0, all.Len())
	for m := range all.All() {
		out = append(out, *m)
	}
	return out
}

func (fs *files) mapping(m *procmap.Mapping, t tracefs.Time) Mapping {
	return Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Perms: m.Perms, Since: t, File: fs.intern(fileOf(m))}
}

func fileOf(m *procmap.Mapping) File {
	return File{Name: m.Name, BuildID: m.BuildID, Inode: m.Inode, Dev: m.Dev, Generation: m.Generation, Kind: m.Kind}
}

// Fork notes that a process was made at t with all mappings of its parent.
//
// This and the following note what happened at a time, in the order in which it
// happened. A reading of the process (Replace) that is newer may have come before:
// it stays.
func (s *Spaces) Fork(parent, child int, t tracefs.Time) { s.Share(parent, child, t, t) }

// Share notes that a process that was made at a time has what its parent has at another one.
func (s *Spaces) Share(parent, child int, made, t tracefs.Time) {
	v := Version{From: made, Fresh: true, Exact: true, Parent: parent}
	if old := s.Space(parent).At(t); old != nil {
		v.Mappings, v.Comm, v.Unseen = old.Mappings, old.Comm, old.Unseen
		v.Partial, v.Forgotten, v.unknown = old.Partial, old.Forgotten, old.unknown
	}
	s.update(child, func(old *Space) *Space {
		next := old.with(child, v)
		if next != old {
			next.loads, next.gone = next.loads.ended(made), next.gone.after(made)
		}
		return next
	})
}

// Exec notes that a process has replaced its memory at t. Map or Replace note what
// it maps then.
func (s *Spaces) Exec(pid int, comm string, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		v := Version{From: t, Comm: comm, Fresh: true, Exact: true}
		if i := old.at(t); i >= 0 {
			v.StartTime = old.versions[i].StartTime
		}
		next := old.with(pid, v)
		return removing(old, next, next.gone.after(t))
	})
}

// Exit notes that a process ended at t. Its mappings can still be looked up for
// times before.
func (s *Spaces) Exit(pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space { return old.ended(t) })
}

// Comm notes that a process has another name from t on, in the version of that
// time.
func (s *Spaces) Comm(pid int, comm string, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		i := old.at(t)
		if i < 0 || old.versions[i].Comm == comm {
			return old
		}
		v := old.versions[i]
		v.Comm = comm
		return old.grown(i, t, v)
	})
}

// Map notes that a process mapped something at t, or before. It takes the place
// of what was there.
func (s *Spaces) Map(pid int, m *procmap.Mapping, t tracefs.Time) { s.put(pid, m, t, 0, false) }

// MapAfter is Map without effect on times before another one
// (Mapping.After).
func (s *Spaces) MapAfter(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	s.put(pid, m, t, after, false)
}

// MapExact notes that a process mapped something at t and not before. It leaves
// out repetitions: memory that is made writable and executable again, over and
// over, stays one mapping. A file that is mapped in the same place again can be
// another open file. It reports whether it was news.
func (s *Spaces) MapExact(pid int, m *procmap.Mapping, t tracefs.Time) bool {
	return s.put(pid, m, t, t, true)
}

func (s *Spaces) put(pid int, m *procmap.Mapping, t, after tracefs.Time, exact bool) bool {
	if m.Start >= m.End {
		return false
	}
	fresh := s.files.mapping(m, t)
	fresh.After, fresh.Exact = after, exact
	return s.update(pid, func(old *Space) *Space {
		next := old.mapped(pid, fresh, t)
		if compat(m) {
			s.compats.seen(pid)
			return next.unseen(t)
		}
		return next
	})
}

// Unseen notes that changes of what a process has mapped may go unseen from t on,
// until it executes another program.
func (s *Spaces) Unseen(pid int, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space { return old.unseen(t) })
}

func (s *Space) unseen(t tracefs.Time) *Space {
	i := s.at(t)
	if i < 0 || s.versions[i].Unseen {
		return s
	}
	v := s.versions[i]
	if v.Unseen = true; v.From == t {
		return s.grown(i, t, v)
	}
	v.From, v.Fresh, v.Exact, v.Parent = t, false, false, 0
	return s.with(s.PID, v)
}

// mapped returns the space with a mapping that came at t.
func (s *Space) mapped(pid int, fresh Mapping, t tracefs.Time) *Space {
	if s.forgotten(t) {
		return s
	}
	i := s.at(t)
	if i < 0 {
		return s.with(pid, Version{From: t, Fresh: true, Mappings: Mappings{build([]Mapping{fresh})}})
	}
	v := s.versions[i]
	was := v.Find(fresh.Start)
	if fresh.Exact && was != nil && was.renamed(&fresh) {
		fresh.File = was.File
	}
	again := fresh.Exact && was != nil && was.covers(&fresh)
	switch {
	case again && was.Since <= t && !(was.File.Kind.HasFile() && was.samePlace(&fresh)):
		return s
	case again && was.Since > t && was.samePlace(&fresh): // a newer reading has found it
		v.Mappings, _ = v.Mappings.put(fresh)
		return s.grown(i, t, v)
	}
	ms, clash := v.Mappings.put(fresh)
	if clash {
		return s.then(i, t, ms.under(v.Mappings, fresh.Start, fresh.End, t), v.unknown)
	}
	v.Mappings = ms
	return s.grown(i, t, v)
}

// under puts back on top what came after t and was there between two addresses.
func (ms Mappings) under(had Mappings, start, end uint64, t tracefs.Time) Mappings {
	for m := range had.Between(start, end) {
		if m.Since > t {
			ms, _ = ms.put(*m)
		}
	}
	return ms
}

// Unmap notes that from t on a process has nothing any more between two
// addresses. It reports whether anything was known.
func (s *Spaces) Unmap(pid int, start, end uint64, t tracefs.Time) bool {
	return s.update(pid, func(old *Space) *Space {
		return old.unmapped(start, end, t, func(u unknown) unknown { return u.without(addresses{start, end}) })
	})
}

// unmapped returns the space without its mappings between two addresses from t on;
// change makes its new unknown addresses of the old ones.
func (s *Space) unmapped(start, end uint64, t tracefs.Time, change func(unknown) unknown) *Space {
	i := s.at(t)
	if i < 0 || start >= end {
		return s
	}
	v := &s.versions[i]
	ms, clash := v.Mappings.cut(start, end)
	next := change(v.unknown)
	if !clash && slices.Equal(next, v.unknown) {
		return s
	}
	was := v.Mappings.Between(start, end)
	return removing(s, s.then(i, t, ms.under(v.Mappings, start, end, t), next), s.gone.without(was, start, end, t))
}
