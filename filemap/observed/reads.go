package observed

import (
	"cmp"
	"slices"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// A dump has what has changed from one reading of a process to the next. If it says when the
// process was read and had not changed (procmap.Reads), it shows pauses, too: of these
// nothing is known. Other dumps are taken for ones of pollers that read each process all the
// time until the next change.

// add appends a version. ids are the build IDs of its files. With notes of readings it
// becomes a version for each time in which the process was read without a pause.
func (d *Dump) add(pid int32, v version, ids map[procmap.FileID]filemap.BuildID, reads []procmap.Reads) {
	for i := range v.maps {
		if f := v.maps[i].file; f != nil {
			if id, ok := ids[procmap.FileID{Dev: f.key.dev, Inode: f.key.inode}]; ok {
				v.maps[i].file = d.withID(f, id)
			}
		}
	}
	v.until = v.at
	for i, r := range reads {
		from := tracefs.Time(r.From)
		if i > 0 && from > v.until {
			if d.mappings += len(v.maps); d.mappings > maxMappings {
				break // of the later readings nothing is known
			}
			d.spaces[pid] = append(d.spaces[pid], v)
			v.maps, v.at = slices.Clone(v.maps), from
		}
		v.until, v.every = max(v.until, tracefs.Time(r.Until)), tracefs.Time(r.Every)
	}
	d.spaces[pid] = append(d.spaces[pid], v)
}

// paused reports whether the process was not read for long between two versions. Whatever
// it had can have gone in between, and have come again.
func (v *version) paused(before *version) bool {
	return before.every > 0 && v.at-before.until > before.every
}

// unread reports whether between two times there was one in which the process of versions
// was not read for long.
func unread(versions []version, from, to tracefs.Time) bool {
	for i := range versions {
		v := &versions[i]
		switch {
		case v.every == 0:
		case i+1 < len(versions):
			if next := &versions[i+1]; next.paused(v) && v.until < to && from < next.at {
				return true
			}
		case to > v.until+v.every:
			return true
		}
	}
	return false
}

// noted reports whether the dump says when the process was read.
func (m *moment) noted() bool { return saysWhen(m.versions) }

func saysWhen(versions []version) bool {
	return len(versions) > 0 && versions[len(versions)-1].every > 0
}

// wholeIdent is which file a mapped file is, with its build ID if the dump gives one.
type wholeIdent struct {
	ident
	id filemap.BuildID
}

func (m *mapped) whole() wholeIdent { return wholeIdent{m.ident(), m.id} }

// stretch is the time between two readings.
type stretch struct{ first, last tracefs.Time }

// see notes when files were mapped: the runs of each.
func (d *Dump) see(versions []version) {
	known := make(map[*run]bool)
	for i := range versions {
		for _, r := range versions[i].runs {
			if !known[r] {
				known[r] = true
				of := r.file.whole()
				d.seen[of] = append(d.seen[of], stretch{r.first, r.last})
			}
		}
	}
}

// seenAll puts the times together in which files were mapped by any process.
func (d *Dump) seenAll() {
	for of, list := range d.seen {
		sorting.Func(list, func(a, b stretch) int { return cmp.Compare(a.first, b.first) })
		out := list[:1]
		for _, s := range list[1:] {
			if last := &out[len(out)-1]; s.first <= last.last {
				last.last = max(last.last, s.last)
			} else {
				out = append(out, s)
			}
		}
		d.seen[of] = slices.Clip(out)
	}
}

// wasMapped reports whether a file was mapped by one process or another from one time to
// another, both by the clock of the dump.
func (d *Dump) wasMapped(f *mapped, from, to tracefs.Time) bool {
	list := d.seen[f.whole()]
	i, _ := slices.BinarySearchFunc(list, from, func(s stretch, t tracefs.Time) int {
		if s.last < t {
			return -1
		}
		return 1
	})
	return i < len(list) && list[i].first <= from && to <= list[i].last
}

// pauses are the times in which no process was read, by a dump that says when processes
// were, in order.
type pauses []stretch

// findPauses finds the times in which no process was read for long.
func (d *Dump) findPauses() {
	var reads []stretch
	every := tracefs.Time(0)
	for _, versions := range d.spaces {
		for i := range versions {
			v := &versions[i]
			reads, every = append(reads, stretch{v.at, v.until}), max(every, v.every)
		}
	}
	if every == 0 {
		return
	}
	sorting.Func(reads, func(a, b stretch) int { return cmp.Compare(a.first, b.first) })
	for last := reads[0].last; len(reads) > 0; reads = reads[1:] {
		if reads[0].first-last > every {
			d.pauses = append(d.pauses, stretch{last, reads[0].first})
		}
		last = max(last, reads[0].last)
	}
}

// around returns the time in which a process can have had a file, if that is from the
// first to the last reading of it: it can have begun in a pause, and have ended in one.
func (p pauses) around(h hull, versions []version) hull {
	begin, end := versions[0].at, versions[len(versions)-1].until
	every := versions[len(versions)-1].every
	for _, pause := range p {
		if h.from != never && pause.first < begin && begin <= pause.last+every {
			h.from = min(h.from, pause.first)
		}
		if h.to != ever && pause.first-every <= end && end < pause.last {
			h.to = max(h.to, pause.last)
		}
	}
	return h
}
