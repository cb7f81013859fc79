package sideband

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// startTick is the precision of the start times of processes: USER_HZ is 100 everywhere.
const startTick = tracefs.Time(time.Second / 100)

// bootClock has the trace's times of times since boot, which the kernel has of when processes
// were started. Both clocks can differ by more later: while the machine sleeps, and where one
// of them is adjusted. Then what is started meanwhile is taken to be younger than it is.
type bootClock struct {
	known bool
	ahead tracefs.Time // the least that the clock of boot was ahead
}

// look sees how far the clock of boot is ahead. The time between the two readings makes it more.
func (c *bootClock) look(clock int32) {
	now := perf.Now(clock)
	ahead := perf.Now(unix.CLOCK_BOOTTIME) - now
	if !c.known || ahead < c.ahead {
		c.known, c.ahead = true, ahead
	}
}

// started returns the time of the tick in which a process was started, or a later one.
func (c *bootClock) started(st *procmap.Stat) tracefs.Time {
	const most = uint64(math.MaxInt64 / startTick)
	return tracefs.Time(min(st.StartTime, most))*startTick - c.ahead
}

// another reports whether a process that was read at t is another one than the one that is known
// by its number: records are lost, and it was started later than that one, of which no reading
// says when it was. No number is used twice within a tick, unless a program that has the right to
// choose numbers does it.
func (b *Band) another(p *procmap.Process, t tracefs.Time) bool {
	s := b.History.Spaces.Space(p.PID)
	v := s.At(t)
	if v == nil || v.StartTime != 0 || p.Stat.StartTime == 0 {
		return false
	}
	began := s.Began(t)
	if !b.History.Gaps.Missing(began, t) {
		return false
	}
	b.boot.look(b.clock)
	return b.boot.started(&p.Stat) > began
}

// succeeded notes that a process had ended by t, and that there was another one of its number:
// the records of both are lost. Its first thread is listed as that of the former one was, so it
// does not count as one that is still listed (dying).
func (h *History) succeeded(pid int, t tracefs.Time) {
	h.gone(pid, t)
	h.thread(pid, pid, t)
}
