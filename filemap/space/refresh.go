package space

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// Refresh reads the mappings of all processes and notes what changed, with the
// time of clock (Monotonic, if the trace has that clock). Processes that are
// gone are ended. The Reader must read Stat too.
func (s *Spaces) Refresh(r *procmap.Reader, clock func() tracefs.Time) (procmap.Counts, error) {
	known := make(map[int]bool)
	t := clock()
	begin := t
	counts, err := r.Walk(nil, func(p *procmap.Process, err error) error {
		switch {
		case err == nil:
			s.Replace(p, t)
			known[p.PID] = true
		case errors.Is(err, procmap.ErrGone), errors.Is(err, procmap.ErrNoMemory):
		default:
			known[p.PID] = true // it is there, we just may not look
		}
		t = clock() // before the next one is read
		return nil
	})
	if err != nil {
		return counts, fmt.Errorf("refreshing the address spaces: %w", err)
	}
	s.Snapshot().Each(func(sp *Space) bool {
		if sp.last() != nil && !known[sp.PID] && sp.changed <= begin {
			s.Exit(sp.PID, begin)
		}
		return true
	})
	return counts, nil
}

// RefreshProcess does the same for one process. Its mappings are read into p,
// whose memory is used again.
func (s *Spaces) RefreshProcess(r *procmap.Reader, pid int, p *procmap.Process, t tracefs.Time) error {
	err := r.Process(pid, p)
	switch {
	case err == nil:
		s.Replace(p, t)
	case errors.Is(err, procmap.ErrGone), errors.Is(err, procmap.ErrNoMemory):
		s.Exit(pid, t)
	}
	return err
}

// Monotonic returns the time of CLOCK_MONOTONIC.
func Monotonic() tracefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot be: every kernel has this clock
	}
	return tracefs.Time(ts.Nano())
}
