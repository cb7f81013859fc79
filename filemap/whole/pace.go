package whole

import "ustack/tracefs"

// pace says when sampling pauses.
type pace struct {
	late    tracefs.Time // how late the trace may be read, see lateFor
	paused  bool
	sampled int          // since window
	window  tracefs.Time // when it began, or paused sampling was last found late
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

// tooMany reports whether a window had too many samples, or so many that the trace is
// read late. perWindow are the most that it may have.
func (p *pace) tooMany(perWindow int, late tracefs.Time) bool {
	const many = 4 // of as many parts of perWindow, one
	return p.sampled > perWindow || p.sampled > perWindow/many && late > p.late
}

// step reports whether sampling pauses from now on. late is how long after it was written
// a record has just been read.
func (p *pace) step(now, late tracefs.Time, perWindow int) (paused bool) {
	const window = tracefs.Time(1e9 / windows)
	switch {
	case p.paused && late > p.late && now-p.since < tasteEvery:
		p.window = now
	case now-p.window >= window, p.paused && late > p.late:
		p.window, p.sampled, p.paused = now, 0, false
	case !p.paused && p.tooMany(perWindow, late):
		p.paused, p.since = true, now
	}
	return p.paused
}
