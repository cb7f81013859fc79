package sideband

import (
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// The link of a mapping in /proc/PID/map_files has the bounds of the mapping. When a record is
// read, the mapping can have been cut (by mprotect) or moved, or its process can have ended
// and left it to a child. The file is mapped all the same, and the one at its path can be
// another one. So it is looked for where that process and its children are known to map it.

// unheld is a file whose mappings could not be looked at.
type unheld struct {
	watchedFile
	// in are the processes that have mapped it.
	in map[int]bool
	// missed are the places where it was not found, and since when.
	missed map[mappedPlace]tracefs.Time
}

// mappedPlace is a mapping of a process.
type mappedPlace struct {
	pid   int
	start uint64
	since tracefs.Time
}

const (
	// maxUnheld bounds the files, maxUnheldIn the processes and maxPlaces the places of one:
	// of more than that, the build ID is not known to be right.
	maxUnheld, maxUnheldIn, maxPlaces = 1 << 10, 1 << 12, 1 << 8
	// maxHeirs is how many generations of processes are taken for the children of one.
	maxHeirs = 8
)

// notHeld notes that the mapping of a file by a process could not be looked at.
func (w *watchedFiles) notHeld(pid int, f *watchedFile) {
	s := &w.stamps
	u := s.unheld[f.mappedFile]
	switch {
	case u == nil && len(s.unheld) >= maxUnheld, u != nil && len(u.in) >= maxUnheldIn:
		w.lose(f)
		return
	case u == nil:
		if s.unheld == nil {
			s.unheld = make(map[mappedFile]*unheld)
		}
		u = &unheld{watchedFile: *f, in: make(map[int]bool)}
		s.unheld[f.mappedFile] = u
	}
	for _, sharer := range w.history.sharers.with(pid) { // the one that has mapped it may end first
		u.in[sharer] = true
	}
	u.mapped = min(u.mapped, f.mapped)
}

// findUnheld looks for the files that could not be looked at. All that happened before
// drained is known.
func (w *watchedFiles) findUnheld(drained tracefs.Time) {
	s := &w.stamps
	if len(s.unheld) == 0 {
		return
	}
	places := w.placesOfUnheld(drained)
	for file, f := range s.unheld {
		if !w.stillUnheld(f, places[file], drained) {
			delete(s.unheld, file)
		}
	}
}

// placesOfUnheld returns where each of the files is mapped.
func (w *watchedFiles) placesOfUnheld(drained tracefs.Time) map[mappedFile][]mappedPlace {
	places := make(map[mappedFile][]mappedPlace)
	for file := range w.stamps.unheld {
		places[file] = nil
	}
	wanted := make(map[*space.File]bool) // of files that were seen
	w.history.Spaces.Snapshot().Each(func(sp *space.Space) bool {
		v := sp.At(drained)
		if v == nil {
			return true
		}
		for m := range v.Mappings.All() {
			file := mappedFile{m.File.Name, m.File.BuildID}
			want, known := wanted[m.File]
			if !known {
				_, want = places[file]
				wanted[m.File] = want
			}
			if want {
				places[file] = append(places[file], mappedPlace{sp.PID, m.Start, m.Since})
			}
		}
		return true
	})
	return places
}

// stillUnheld looks for a file in places, and reports whether it has to be looked for again,
// where it was not found: a process may have changed since. In the middle of an exec or an
// exit, of which the record is to come, it has nothing anywhere. A place counts where there was
// another file while the mapping was there (see suspect), or nothing for long.
func (w *watchedFiles) stillUnheld(f *unheld, places []mappedPlace, drained tracefs.Time) (again bool) {
	missed := make(map[mappedPlace]tracefs.Time)
	tries := 0
	for _, p := range places {
		if !w.isHeir(p.pid, f, drained) {
			continue
		}
		if tries++; tries > maxPlaces {
			w.lose(&f.watchedFile)
			return false
		}
		since, before := f.missed[p]
		found := w.holdAt(f, p)
		now := perf.Now(w.clock)
		switch {
		case found == foundIt:
			continue
		case found == foundOther && len(w.stamps.suspects) < maxStamped:
			w.stamps.suspects = append(w.stamps.suspects, suspect{f.watchedFile, p.pid, p.start, p.since, now, true})
			continue
		case !before:
			since = now
		case now-since > tracefs.Time(tooLate):
			w.lose(&f.watchedFile)
			return false
		}
		missed[p] = since
	}
	f.missed, f.in = missed, make(map[int]bool)
	for p := range missed {
		f.in[p.pid] = true
	}
	return len(missed) > 0
}

// foundFile is what is found in a place.
type foundFile uint8

const (
	foundNone foundFile = iota
	foundOther
	foundIt
)

// isHeir reports whether a process can have a mapping from the one that has mapped a file: it
// is that one, shares its memory, or was forked of it.
func (w *watchedFiles) isHeir(pid int, f *unheld, t tracefs.Time) bool {
	for range maxHeirs {
		if pid == 0 {
			return false
		}
		for _, sharer := range w.history.sharers.with(pid) {
			if f.in[sharer] {
				return true
			}
		}
		pid = w.history.Spaces.Space(pid).ForkedOf(t)
	}
	return true
}

// holdAt holds the file that is mapped in a place, if it is the one.
func (w *watchedFiles) holdAt(f *unheld, p mappedPlace) foundFile {
	m, ok := w.boundsOf(p)
	if !ok {
		return foundNone
	}
	m.BuildID = f.id
	held := &heldFile{pid: p.pid, m: m, made: w.completer.wall.at(f.mapped), fd: -1}
	if w.completer.bounded().Do(held.open) != nil {
		held.leave()
		return foundNone
	}
	switch {
	case held.fresh && !held.executed:
		held.close()
		w.lose(&f.watchedFile)
	case held.fd >= 0 || held.changed && !held.strange:
		w.keep(&f.watchedFile, held)
	case held.strange:
		return foundOther
	case !held.remote:
		return foundNone
	}
	return foundIt
}

// boundsOf returns the mapping of a process in a place, as it is now.
func (w *watchedFiles) boundsOf(p mappedPlace) (m procmap.Mapping, ok bool) {
	if w.completer.reader == nil {
		return m, false
	}
	h, err := w.completer.reader.Open(p.pid)
	if err != nil {
		return m, false
	}
	defer h.Close()
	m, ok, err = h.At(p.start)
	return m, ok && err == nil
}
