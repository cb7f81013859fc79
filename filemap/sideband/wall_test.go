package sideband

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestWallSet: a file that was changed after it was mapped is not taken for older because the wall
// clock is set meanwhile, whichever way.
func TestWallSet(t *testing.T) {
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		var ahead time.Duration
		c := wallClock{clock: unix.CLOCK_MONOTONIC, now: func() time.Time { return time.Now().Add(ahead) }}
		c.look()
		mapped, changed := perf.Now(c.clock), time.Now().Add(time.Microsecond)
		if by < 0 { // it is changed after that
			changed = changed.Add(by)
		}
		ahead = by
		for range 3 {
			if at := c.at(mapped); at.After(changed) {
				t.Errorf("clock set by %v: mapped at %v, changed at %v", by, at, changed)
			}
		}
		later := perf.Now(c.clock) + tracefs.Time(time.Second)
		if want, at := time.Now().Add(by+time.Second), c.at(later); at.Sub(want).Abs() > time.Minute {
			t.Errorf("clock set by %v: %v of what came later, want %v", by, at, want)
		}
	}
}
