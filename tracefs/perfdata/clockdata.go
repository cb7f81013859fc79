package perfdata

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// clockData is one moment by two clocks: that of the trace, as perf record -k sets it, and the
// wall clock (HEADER_CLOCK_DATA, struct of version 1 in tools/perf/util/header.c).
type clockData struct {
	id         uint32 // of clock_gettime(2)
	wall, time uint64 // ns
}

const clockDataVersion = 1

// clockData reads the feature.
func (f *File) clockData(b []byte) error {
	v := fields{order: f.order, rest: b}
	version := v.word32()
	c := clockData{id: v.word32(), wall: v.word64(), time: v.word64()}
	switch {
	case version != clockDataVersion:
		return malformed(0, "version %d of the times of two clocks, %d is known", version, clockDataVersion)
	case v.bad || c.time == 0 || max(c.wall, c.time) > 1<<62 || c.id == unix.CLOCK_MONOTONIC && c.time > c.wall:
		return malformed(0, "%d and %d are no times of two clocks", c.time, c.wall)
	}
	f.wall = &c
	return nil
}

// note says when the trace's clock was 0, "" if the file does not say it, or before 1970: the wall
// clock itself, whose time perf takes in microseconds, and TAI, which is ahead of it. Only
// CLOCK_MONOTONIC is never ahead (do_settimeofday64 in kernel/time/timekeeping.c).
func (c *clockData) note() string {
	if c == nil || c.time > c.wall || c.id == unix.CLOCK_REALTIME || c.id == unix.CLOCK_TAI {
		return ""
	}
	return fmt.Sprintf("by the wall clock, time 0 of this trace was %s: perf has %s for %d.%06d", at(c.wall-c.time), at(c.wall), c.time/1e9, c.time%1e9/1e3)
}

// at returns a time of the wall clock, in UTC.
func at(ns uint64) string { return time.Unix(0, int64(ns)).UTC().Format("2006-01-02T15:04:05.000000Z") }
