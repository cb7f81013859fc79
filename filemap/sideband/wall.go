package sideband

import (
	"time"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// wallClock has the wall clock's times, by which files have theirs, of times of the trace's clock.
// The wall clock can be set meanwhile.
type wallClock struct {
	clock int32
	// ahead is how far the wall clock was ahead when it was looked at last, 0 for never, before
	// how far until it was set, and set is when that was seen.
	ahead, before time.Duration
	set           tracefs.Time
	now           func() time.Time // nil for the machine's clock
}

// adjusted is less than the wall clock is set by, and more than it is slowed down by between two
// looks.
const adjusted = time.Millisecond

// look sees whether the wall clock was set since it was looked at last.
func (c *wallClock) look() (wall time.Time, at tracefs.Time) {
	wall, at = time.Now(), perf.Now(c.clock)
	if c.now != nil {
		wall = c.now()
	}
	ahead := time.Duration(wall.UnixNano() - int64(at))
	if c.ahead != 0 && (ahead-c.ahead).Abs() > adjusted {
		c.before, c.set = c.ahead, at
	}
	c.ahead = ahead
	return wall, at
}

// at returns about the wall clock's time of a time. Of one before the clock was set it is the
// earlier one that it can be: a file that was changed after that is not taken for older.
func (c *wallClock) at(t tracefs.Time) time.Time {
	wall, now := c.look()
	if t <= c.set {
		wall = wall.Add(min(0, c.before-c.ahead))
	}
	return wall.Add(-time.Duration(now - t))
}
