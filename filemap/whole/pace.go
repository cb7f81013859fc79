package whole

import "ustack/tracefs"

// pace says when sampling pauses.
type pace struct {
	late    tracefs.Time // how late the trace may be read, see lateFor
	paused  bool
	sampled int          // since window
	window  tracefs.Time // when the samples that are counted began, or paused sampling was last found late
	until   tracefs.Time // when samples were read last
	since   tracefs.Time // when sampling paused last
}

// windows of a second in which samples are counted.
const windows = 20

// lateRead is how long after they were written records are read at most, with many
// samples, from the kernel's buffer of usualKB: it holds the records of some 50 ms of such a time.
const lateRead, usualKB = tracefs.Time(20e6), 1408

// lateFor returns that for a buffer of each CPU. What it holds more is there for a machine that
// has other work, too; it is a part of it, as another program may write more.
func lateFor(kb int) tracefs.Time {
	const most = 5
	return max(lateRead, lateRead*tracefs.Time(min(kb, most*usualKB))/usualKB)
}

// tasteEvery is how soon sampling that has paused goes on if the trace is read late still,
// which it can be for as long as it lasts: until it has a quarter of a window's samples.
const tasteEvery = tracefs.Time(250e6)

// window is how long samples are counted at least, and longest at most: they are read late on
// a machine that is busy, and are no more for that.
const (
	window  = tracefs.Time(1e9 / windows)
	longest = 10 * window
)

// tooMany reports whether a window had too many samples, or so many that the trace is
// read late. perWindow are the most that it may have.
func (p *pace) tooMany(perWindow int, late tracefs.Time) bool {
	const many = 4 // of as many parts of perWindow, one
	took := min(max(p.until-p.window, window), longest)
	most := perWindow * int(took/1e3) / int(window/1e3)
	return p.sampled > most || p.sampled > most/many && late > p.late
}

// step reports whether sampling pauses from now on. late is how long after it was written
// a record has just been read.
func (p *pace) step(now, late tracefs.Time, perWindow int) (paused bool) {
	switch {
	case p.paused && late > p.late && now-p.since < tasteEvery:
		p.window = now
	case p.paused && (late > p.late || now-p.window >= window):
		p.window, p.sampled, p.paused = now, 0, false
	case p.paused:
	case p.tooMany(perWindow, late):
		p.paused, p.since = true, now
	case p.until-p.window >= window:
		p.window, p.sampled = p.until, 0
	}
	return p.paused
}

// rests are the last pauses of sampling.
type rests struct{ list []rest }

// rest is a pause; to is 0 while it lasts.
type rest struct{ from, to tracefs.Time }

// maxRests bounds the pauses that are known: of some minutes, where there are many.
const maxRests = 1024

func (r *rests) begin(now tracefs.Time) {
	if len(r.list) >= maxRests {
		r.list = append(r.list[:0], r.list[maxRests/2:]...)
	}
	r.list = append(r.list, rest{from: now})
}

func (r *rests) end(now tracefs.Time) {
	if n := len(r.list); n > 0 {
		r.list[n-1].to = now
	}
}

// at reports whether sampling paused at a time.
func (r *rests) at(t tracefs.Time) bool {
	for i := len(r.list) - 1; i >= 0; i-- {
		if p := r.list[i]; t >= p.from {
			return p.to == 0 || t <= p.to
		}
	}
	return false
}

// alone counts a wait without a sample that began at a time.
func (s *Stage) alone(t tracefs.Time, c *Counts) {
	c.Alone++
	if s.rests.at(t) {
		c.Missed++
	}
}
