package observed

import (
	"slices"
	"strings"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// voice is what a process says of the clocks: by where in files its frames are, and
// by the names that it has had.
type voice struct {
	skew
	// foreign is when it was last seen with a name that none of its versions has,
	// before any that one has; called: it was seen with such a one, since then.
	foreign, since tracefs.Time
	called         bool
}

const (
	// agreeing is how many processes must agree. One can have forked from a
	// program of its own name, and have the files of that one still, can have
	// changed its name back and forth, or have had a file again between two readings.
	agreeing = 2
	// maxVoices bounds the processes that are heard.
	maxVoices = 1 << 16
)

// voice is the one of a process, nil if there are too many.
func (c *calibration) voice(pid int32) *voice {
	v := c.voices[pid]
	if v == nil && len(c.voices) < maxVoices {
		v = &voice{skew: skew{never, ever}, foreign: never}
		c.voices[pid] = v
	}
	return v
}

// hear notes between what a process says that the clocks are apart.
func (c *calibration) hear(pid int32, least, most tracefs.Time) {
	if v := c.voice(pid); v != nil {
		v.least, v.most = max(v.least, least), min(v.most, most)
	}
}

// said is what so many processes say.
func (c *calibration) said(by int) skew {
	if len(c.voices) < by {
		return skew{never, ever}
	}
	lows, highs := make([]tracefs.Time, 0, len(c.voices)), make([]tracefs.Time, 0, len(c.voices))
	for _, v := range c.voices {
		lows, highs = append(lows, v.least), append(highs, v.most)
	}
	slices.Sort(lows)
	slices.Sort(highs)
	return skew{lows[len(lows)-by], highs[by-1]}
}

// called takes the name of a process's first thread at a time. The program of that
// name was there between the readings that have others.
func (c *calibration) called(d *Dump, pid int32, comm string, t tracefs.Time) {
	versions := d.spaces[pid]
	if len(versions) == 0 || versions[0].comm == "" {
		return
	}
	v := c.voice(pid)
	if v == nil || v.called && len(versions) == 1 {
		return
	}
	if c.looks += len(versions); c.looks > maxHullLooks {
		return
	}
	first := slices.IndexFunc(versions, func(v version) bool { return v.comm == comm })
	if first < 0 {
		if !v.called {
			v.foreign = t
		}
		return
	}
	if !v.called && first == 0 && v.foreign != never {
		v.least = max(v.least, v.foreign-versions[0].at)
	}
	if !v.called {
		v.called, v.since = true, t
	}
	last := first
	for last+1 < len(versions) && versions[last+1].comm == comm {
		last++
	}
	if slices.ContainsFunc(versions[last+1:], func(v version) bool { return v.comm == comm }) {
		return // it has had the name twice
	}
	if first > 0 {
		v.most = min(v.most, t-versions[first-1].at)
	}
	if last+1 < len(versions) {
		v.least = max(v.least, t-versions[last+1].at)
	}
}

// Watches reports whether the reading at hand is the first one, so that the names of
// threads are of use (Called): to compare the clocks, too, if they are not known.
func (e *Mappings) Watches() bool { return !e.watched }

// Read notes that all names were taken that threads had until
// the end of the stacks that were attributed.
func (e *Mappings) Read() {
	if e.clocks != nil {
		e.clocks.take()
	}
}

// Called takes the name that a thread had at a time of the trace, in nanoseconds:
// as sched_switch has it, not the header of a line, which has the last one.
func (e *Mappings) Called(tid int32, comm []byte, t tracefs.Time) {
	if tid <= 0 || e.watched {
		return
	}
	name := strings.TrimLeft(string(comm), " ")
	if len(e.dump.spaces[tid]) > 0 {
		e.dump.leaders.note(tid, name, t)
	}
	if e.clocks != nil {
		e.Lives(tid, t)
		e.clocks.called(e.dump, tid, name, t)
	}
}

// isProgram reports whether versions are all of one program, a stack's. A
// process that was made to execute it has the files of another program before,
// and that program's name.
func isProgram(versions []version, pid int32, s *resolve.Query) bool {
	return !slices.ContainsFunc(versions, func(v version) bool {
		return v.program != versions[0].program || v.comm == "" || s.TID == pid && (s.Comm == nil || !v.isNamed(s.Comm))
	})
}
