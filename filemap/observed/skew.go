package observed

import (
	"math"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// skew is how far the clock of a trace is ahead of a dump's, at least and at
// most. The dump has CLOCK_MONOTONIC; the kernel's trace clock, unless it was set,
// is another one, ahead by a tenth of a second on one machine and by minutes on
// another, and text does not say which it is. What is in a file was mapped then,
// so frames of files that came or went between two readings bound it.
type skew struct{ least, most tracefs.Time }

const (
	// unsure is how far off times are in any case: reading a process takes
	// time.
	unsure = tracefs.Time(2e6)
	// usual is what the trace's clock is ahead by at most if nothing shows it.
	usual = tracefs.Time(150e6)
	// lag is how far the trace's clock can lag if nothing shows it.
	lag = tracefs.Time(10e6)
	// reading is how long it can take to read a process, on a machine that has other work.
	reading = tracefs.Time(20e6)
)

// calibration finds the skew on a reading of the trace.
type calibration struct {
	hulls map[hullKey]hull
	looks int
	// voices are what processes say of the clocks. Each can be wrong.
	voices  map[int32]*voice
	pending []bound
	// ends are of threads that were not seen later.
	ends map[int32]end
}

// hullKey is a file of a process, by what a frame shows of it.
type hullKey struct {
	pid  int32
	id   tracefs.Identifier
	name string
	page uint64
	// of: page is the one of an offset in some file.
	of bool
}

// hull is between which readings a file was mapped: not at from, nor at to.
type hull struct{ from, to tracefs.Time }

// maxHulls bounds the files that are looked at, maxHullLooks the versions that
// they are looked for in.
const (
	maxHulls     = 1 << 15
	maxHullLooks = 1 << 22
)

const (
	never = tracefs.Time(math.MinInt64)
	ever  = tracefs.Time(math.MaxInt64)
)

func newCalibration() *calibration {
	return &calibration{hulls: make(map[hullKey]hull), voices: make(map[int32]*voice), ends: make(map[int32]end)}
}

// see takes what a stack says of the clocks.
func (c *calibration) see(d *Dump, tid int32, s *resolve.Query) {
	pid, _ := d.Process(tid)
	versions := d.spaces[pid]
	if !s.Timed || len(versions) < 2 || d.hasty[pid] {
		return // what comes and goes can have been there earlier or later, too, unseen
	}
	for k := range s.Frames {
		f, o := &s.Frames[k], &s.Attributions[k]
		key := hullKey{pid: pid}
		switch {
		case f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA() && f.ID.IsInode():
			key.id = f.ID
		case f.Form == tracefs.FormIdentifier && o.Owned() && o.File != nil:
			key.name = bareName(o.File.Path)
		case f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA() && isProgram(versions, pid, s):
			key.page, key.of = f.Address(s.Text)&^4095, true
		case f.Form == tracefs.FormPlain && f.Address(s.Text) >= notRandom:
			key.page = f.Address(s.Text) &^ 4095
		default:
			continue
		}
		h, known := c.hulls[key]
		if !known {
			if c.looks += len(versions); len(c.hulls) >= maxHulls || c.looks > maxHullLooks {
				return
			}
			h = d.pauses.around(key.hull(versions), versions)
			c.hulls[key] = h
		}
		least, most := never, ever
		if h.from != never {
			most = s.Time - h.from
		}
		if h.to != ever {
			least = s.Time - h.to
		}
		if least != never || most != ever {
			c.pending = append(c.pending, bound{pid, s.Time, skew{least, most}})
		}
	}
	if len(c.pending) >= maxPending {
		c.take()
	}
}

// bound is what a frame says of the clocks, if it is of the program of its
// process's versions.
type bound struct {
	pid int32
	at  tracefs.Time
	skew
}

// maxPending bounds the bounds that wait for the names of threads.
const maxPending = 1 << 16

// take takes the bounds of what was read by now.
func (c *calibration) take() {
	for i := range c.pending {
		b := &c.pending[i]
		if v := c.voices[b.pid]; v != nil && v.foreign != never && (!v.called || b.at < v.since) {
			continue // of what the process was before: its program's parent
		}
		c.hear(b.pid, b.least, b.most)
	}
	c.pending = c.pending[:0]
}

// hull finds when a file was mapped. One that comes and goes, as plugins do, or that is
// in one reading only, can also have been there in between, unseen, and long before
// it is first seen: it says nothing of the clocks.
func (k *hullKey) hull(versions []version) hull {
	first, last, seen := -1, -1, 0
	for i := range versions {
		if k.in(&versions[i]) {
			if seen++; first < 0 {
				first = i
			}
			last = i
		}
	}
	h := hull{never, ever}
	if seen < 2 || seen <= last-first {
		return h
	}
	for i := first - 1; i >= 0; i-- {
		if i == first-1 || versions[i+1].paused(&versions[i]) {
			h.from = versions[i].at // it can have been there in a pause before, too
		}
	}
	for i := last + 1; i < len(versions); i++ {
		if i == last+1 || versions[i].paused(&versions[i-1]) {
			h.to = versions[i].at
		}
	}
	return h
}

func (k *hullKey) in(v *version) bool {
	switch {
	case k.of:
		found := false
		v.holding(k.page, func(*mapping) bool {
			found = true
			return false
		})
		return found
	case k.page != 0:
		m := v.mappingAt(k.page)
		return m != nil // in whatever: code is in memory, too
	case k.name != "":
		return len(v.offsets().byName[k.name]) > 0
	}
	return len(v.numbered(k.id)) > 0
}

// skew is what the trace says of the clocks.
func (c *calibration) skew() skew {
	c.take()
	return apart(c.said(agreeing), c.said(1))
}

// apart is how far apart the clocks are by what enough processes say, and by what any one
// says. A file that has gone can have come again between two readings, and what frame
// pointers lead to need not be code: what one process says makes nothing more certain, and
// if it contradicts the others, they are wrong, perhaps.
func apart(agreed, single skew) skew {
	s := skew{-lag, usual}
	switch {
	case agreed.least > agreed.most && agreed.least-agreed.most > reading: // some of them are wrong
		s = skew{min(-lag, agreed.most-usual), max(usual, agreed.least+usual)}
	case agreed.most < agreed.least: // by the time that it takes to read processes
		s = skew{agreed.most, agreed.least}
	case agreed.most < s.least:
		s = skew{max(agreed.least, agreed.most-usual), agreed.most}
	case agreed.least > s.least && agreed.most != ever: // both are known
		s = agreed
	case agreed.least > s.least:
		s = skew{agreed.least, agreed.least + usual}
	default:
		s.most = min(s.most, agreed.most)
	}
	if single.least > s.most && (agreed.most == ever || single.least-s.most > reading) {
		s.most = single.least + usual
	}
	if single.most < s.least && (agreed.least == never || s.least-single.most > reading) {
		s.least = min(-lag, single.most-usual)
	}
	return skew{s.least - unsure, s.most + unsure}
}
