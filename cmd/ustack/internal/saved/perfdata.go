package saved

import (
	"errors"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/timeline"
	"ustack/tracefs"
	"ustack/tracefs/perfdata"
)

// useRecorded takes the mappings in a perf.data, if there are no better ones. They are read
// before its samples: what is known of a process is the same for all of them.
func (t *Trace) useRecorded() error {
	files := t.Recorded()
	switch {
	case !perfdata.Supported || len(files) == 0:
		return nil
	case len(files) > 1:
		return errors.New("of several perf.data each has mappings of its own: one can be read at a time")
	case t.options.Maps != "":
		return nil
	}
	f := files[0]
	rec := sideband.NewRecorded(space.NewOf(replayedVersions), f.Clock())
	for i := range f.BuildIDs {
		rec.FileID(f.BuildIDs[i].Name, f.BuildIDs[i].ID)
	}
	rec.Changed = f.Changed
	f.SideBand(rec.Add)
	doubtListed(f, t.options.Files[0], rec)
	t.copies.open(f, t.options.Files[0], rec)
	a := &recorded{threads: rec.History.Threads, spaces: rec.History.Spaces, lost: rec.LostSince, missed: rec.Missed, followed: f.Followed()}
	stamp := timeline.TextStamp()
	if t.Sources() == 1 {
		t.opt.Exact, stamp = true, timeline.Precision{}
	}
	always := func(tracefs.Time) bool { return true }
	a.inner = timeline.New(timeline.Options{Spaces: rec.History.Spaces, Threads: a, Unsure: always, Stamp: stamp, BuildID: rec.BuildID})
	t.opt.Attributor = a
	return nil
}

// recorded attributes by the mappings in a perf.data. It implements resolve.Attributor, and
// timeline.Threads for the stack at hand.
type recorded struct {
	inner   *timeline.Attributor
	threads *sideband.Threads
	spaces  *space.Spaces
	lost    tracefs.Time // when the first records were lost
	missed  func(tracefs.Time) (until tracefs.Time, ok bool)
	// followed is whose mappings are in the file.
	followed perfdata.Followed
	tid      int
	pid      int // of tid, by the sample itself; 0 or less if unknown
}

// Attribute implements resolve.Attributor.
func (a *recorded) Attribute(s *resolve.Query) {
	s.Identify()
	a.tid, a.pid = int(s.TID), int(s.TGID)
	a.inner.Attribute(s)
	a.replaced(s)
	if s.Time < a.lost && a.followed == perfdata.FollowedWhole {
		return
	}
	for k := range s.Attributions { // the record of the mapping may be missing
		if o := &s.Attributions[k]; o.Reason == filemap.NoVMA || o.Reason == filemap.NotCode {
			o.Reason = filemap.Lost
		}
	}
}

// replaced takes the files off frames that may be of another program, whose exec was lost:
// the record of it, and those of what it has mapped. At a random place no two programs have
// code. But a program can unmap a file and map another one there: a file that was mapped
// before a loss is only claimed from then on.
// The same holds where not all that processes map is recorded: on CPUs and in control groups that are
// not, and where rings were overwritten, all records may be missing, of threads that are not, those of
// mappings, at any time.
func (a *recorded) replaced(s *resolve.Query) {
	until, ok := a.missed(s.Time)
	switch a.followed {
	case perfdata.FollowedPlaces:
		until, ok = space.Forever, true
	case perfdata.FollowedThreads:
		for k := range s.Attributions {
			if o := &s.Attributions[k]; o.File != nil {
				o.Trust = filemap.Claimed
			}
		}
	case perfdata.FollowedLater:
		a.readLater(s)
	}
	if !ok {
		return
	}
	began := a.inner.BeganSince(int(s.TID), s.Time, until)
	for k := range s.Attributions {
		f, o := &s.Frames[k], &s.Attributions[k]
		if o.File == nil || f.Form != tracefs.FormPlain {
			continue
		}
		addr := f.Address(s.Text)
		switch {
		case !began && sideband.FixedPlace(addr):
			*o = resolve.Unnamed(filemap.Lost)
		case !a.mappedSince(s, addr, until):
			o.Trust = filemap.Claimed
		}
	}
}

// readLater claims the files that were mapped when perf has read /proc: there is no record of
// the mapping, and another file may have been there before.
func (a *recorded) readLater(s *resolve.Query) {
	for k := range s.Attributions {
		f, o := &s.Frames[k], &s.Attributions[k]
		if o.File != nil && (f.Form != tracefs.FormPlain || !a.mappedSince(s, f.Address(s.Text), 1)) {
			o.Trust = filemap.Claimed
		}
	}
}

// mappedSince reports whether the mapping at an address, at the time of a stack, was made
// after another time.
func (a *recorded) mappedSince(s *resolve.Query, addr uint64, t tracefs.Time) bool {
	pid, _, ok := a.PID(int(s.TID), s.Time)
	if !ok {
		return false
	}
	p, ok := a.spaces.Lookup(pid, addr, s.Time)
	return ok && !p.Late && p.Mapping.Since >= t
}

// PID implements timeline.Threads: a sample says of which process its thread is.
func (a *recorded) PID(tid int, t tracefs.Time) (pid int, late, ok bool) {
	if tid == a.tid && a.pid > 0 {
		return a.pid, false, true
	}
	return a.threads.PID(tid, t)
}
