package space

import (
	"slices"
	"sort"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// Replace notes what a process had mapped at t, when its mappings began to be
// read. It reports whether anything changed. What is older than the last change
// is refused: somebody knows better.
func (s *Spaces) Replace(p *procmap.Process, t tracefs.Time) bool { return s.ReplaceAfter(p, t, 0) }

// ReplaceAfter is Replace that says nothing about times before another one
// (Mapping.After).
func (s *Spaces) ReplaceAfter(p *procmap.Process, t, after tracefs.Time) bool {
	return s.update(p.PID, func(old *Space) *Space {
		if old != nil && t < old.changed {
			return old
		}
		v := Version{From: t, To: Forever, StartTime: p.Stat.StartTime, Comm: p.Stat.Comm, Fresh: true}
		last := old.last()
		if last == nil || last.StartTime != 0 && last.StartTime != v.StartTime {
			v.Mappings = s.convert(nil, p.Mappings, t, after)
			return old.with(p.PID, v)
		}
		kept, better := len(last.Mappings), false
		if s.equal(last.Mappings, p.Mappings) {
			v.Mappings = last.Mappings
		} else {
			v.Mappings, v.Fresh, kept, better = s.merge(last, p.Mappings, t, after)
		}
		if last.Partial { // what is new to us may be old
			v.Fresh = false
			return old.with(p.PID, v)
		}
		if kept < len(last.Mappings) {
			v.Fresh = v.Fresh || v.Comm != last.Comm
			return old.with(p.PID, v)
		}
		v.From, v.Fresh, v.Exact = last.From, last.Fresh, last.Exact
		if len(v.Mappings) == kept && !better && v.Comm == last.Comm && v.StartTime == last.StartTime {
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

// merge converts mappings. Those that a version has already keep their time;
// kept counts them. fresh tells that there is none but [vsyscall], which is
// the same everywhere; better, that the reading knows more of one of them.
func (s *Spaces) merge(last *Version, in []procmap.Mapping, t, after tracefs.Time) (out []Mapping, fresh bool, kept int, better bool) {
	out, fresh = s.convert(nil, in, t, after), true
	k := 0
	for i := range out {
		for k < len(last.Mappings) && last.Mappings[k].Start < out[i].Start {
			k++
		}
		if k == len(last.Mappings) || !out[i].samePlace(&last.Mappings[k]) {
			continue
		}
		known := &last.Mappings[k]
		f, ok := s.files.unite(known, out[i].File)
		if !ok {
			continue
		}
		better = better || f != known.File
		out[i].File, out[i].Since, out[i].After, out[i].Exact = f, known.Since, known.After, known.Exact
		fresh = fresh && f.Kind == procmap.Vsyscall
		kept++
	}
	return out, fresh, kept, better
}

// equal reports whether mappings are what we have, without making anything.
func (s *Spaces) equal(have []Mapping, in []procmap.Mapping) bool {
	if len(have) != len(in) {
		return false
	}
	for i := range in {
		h, m := &have[i], &in[i]
		if h.Start != m.Start || h.End != m.End || h.Offset != m.Offset || h.Perms != m.Perms || *h.File != fileOf(m) {
			return false
		}
	}
	return true
}

// convert appends mappings with their files interned, in order. Of mappings
// that overlap, because the process changed while it was read, the later one
// is right.
func (s *Spaces) convert(out []Mapping, in []procmap.Mapping, t, after tracefs.Time) []Mapping {
	out = slices.Grow(out, len(in))
	for i := range in {
		m := s.mapping(&in[i], t)
		m.After = after
		if n := len(out); n > 0 && out[n-1].End > m.Start {
			out, _ = put(out, m)
			continue
		}
		out = append(out, m)
	}
	return out
}

func (s *Spaces) mapping(m *procmap.Mapping, t tracefs.Time) Mapping {
	return Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Perms: m.Perms, Since: t, File: s.files.intern(fileOf(m))}
}

func fileOf(m *procmap.Mapping) File {
	return File{Name: m.Name, BuildID: m.BuildID, Inode: m.Inode, Dev: m.Dev, Generation: m.Generation, Kind: m.Kind}
}

// Fork notes that a process was made at t with all mappings of its parent.
//
// This and the following tell what happened at a time, in the order in which it
// happened. A reading of the process (Replace) that is newer may have come
// before: it stays.
func (s *Spaces) Fork(parent, child int, t tracefs.Time) {
	v := Version{From: t, Fresh: true, Exact: true}
	if old := s.Space(parent).At(t); old != nil {
		v.Mappings, v.Comm = old.Mappings, old.Comm
	}
	s.update(child, func(old *Space) *Space {
		next := old.with(child, v)
		if next != old {
			next.loads = next.loads.ended(t)
		}
		return next
	})
}

// Exec notes that a process has replaced its memory at t. What it maps then has
// to be told by Map or Replace.
func (s *Spaces) Exec(pid int, comm string, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		v := Version{From: t, Comm: comm, Fresh: true, Exact: true}
		if i := old.at(t); i >= 0 {
			v.StartTime = old.versions[i].StartTime
		}
		return old.with(pid, v)
	})
}

// Exit notes that a process ended at t. What it had mapped can still be looked
// up for times before.
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

// MapAfter is Map that says nothing about times before another one
// (Mapping.After).
func (s *Spaces) MapAfter(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	s.put(pid, m, t, after, false)
}

// MapExact notes that a process mapped something at t and not before. What says
// nothing new is left out: memory that is made writable and executable again,
// over and over, stays one mapping. A file that is mapped in the same place again
// can be another open file.
func (s *Spaces) MapExact(pid int, m *procmap.Mapping, t tracefs.Time) { s.put(pid, m, t, t, true) }

func (s *Spaces) put(pid int, m *procmap.Mapping, t, after tracefs.Time, exact bool) {
	s.update(pid, func(old *Space) *Space {
		fresh := s.mapping(m, t)
		fresh.After, fresh.Exact = after, exact
		i := old.at(t)
		if i < 0 {
			return old.with(pid, Version{From: t, Fresh: true, Mappings: []Mapping{fresh}})
		}
		v := old.versions[i]
		was := v.Find(fresh.Start)
		again := exact && was != nil && was.covers(&fresh)
		switch {
		case again && was.Since <= t && !(was.File.Kind.HasFile() && was.samePlace(&fresh)):
			return old
		case again && was.Since > t && was.samePlace(&fresh): // a newer reading has found it
			v.Mappings = slices.Clone(v.Mappings)
			*v.Find(fresh.Start) = fresh
			return old.grown(i, t, v)
		}
		ms, clash := put(v.Mappings, fresh)
		if clash {
			return old.then(i, t, keepNewer(ms, v.Mappings, t))
		}
		v.Mappings = ms
		return old.grown(i, t, v)
	})
}

// keepNewer puts what came after t back on top.
func keepNewer(ms, had []Mapping, t tracefs.Time) []Mapping {
	for _, m := range had {
		if m.Since > t {
			ms, _ = put(ms, m)
		}
	}
	return ms
}

// Unmap notes that a process has nothing any more between two addresses.
func (s *Spaces) Unmap(pid int, start, end uint64, t tracefs.Time) {
	s.update(pid, func(old *Space) *Space {
		i := old.at(t)
		if i < 0 {
			return old
		}
		ms, clash := cut(old.versions[i].Mappings, start, end)
		if !clash {
			return old
		}
		return old.then(i, t, ms)
	})
}

// put returns a copy of sorted mappings with one more, and whether it took the
// place of others.
func put(ms []Mapping, m Mapping) (out []Mapping, clash bool) {
	out, clash = cut(ms, m.Start, m.End)
	i := sort.Search(len(out), func(i int) bool { return out[i].Start >= m.End })
	return slices.Insert(out, i, m), clash
}

// cut returns a copy of sorted mappings without what lies between two
// addresses, and whether there was something.
func cut(ms []Mapping, start, end uint64) (out []Mapping, clash bool) {
	out = make([]Mapping, 0, len(ms)+1)
	for _, m := range ms {
		if m.End <= start || m.Start >= end {
			out = append(out, m)
			continue
		}
		clash = true
		if m.Start < start {
			left := m
			left.End = start
			out = append(out, left)
		}
		if m.End > end {
			right := m
			right.Start, right.Offset = end, m.Offset+(end-m.Start)
			out = append(out, right)
		}
	}
	return out, clash
}
