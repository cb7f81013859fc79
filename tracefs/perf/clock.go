package perf

import (
	"fmt"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// clocks are the trace clocks (trace_clocks in kernel/trace/trace.c) that perf
// has too (perf_event_set_clock in kernel/events/core.c).
var clocks = map[string]int32{
	"mono":     unix.CLOCK_MONOTONIC,
	"mono_raw": unix.CLOCK_MONOTONIC_RAW,
	"boot":     unix.CLOCK_BOOTTIME,
	"tai":      unix.CLOCK_TAI,
}

// DefaultClock is the trace clock that is taken if none is named.
const DefaultClock = "mono"

// ClockID returns the clock that equals a trace clock, by its number (man 2
// clock_gettime). errors.Is(err, ErrClock) if perf has none.
func ClockID(name string) (int32, error) {
	if name == "" {
		name = DefaultClock
	}
	if id, ok := clocks[name]; ok {
		return id, nil
	}
	return 0, fmt.Errorf("trace clock %q: %w (set trace_clock to mono, boot, tai or mono_raw)", name, ErrClock)
}

// Now returns the time of a clock that ClockID returned.
func Now(id int32) tracefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // cannot be: perf has taken the clock
	}
	return tracefs.Time(ts.Nano())
}
