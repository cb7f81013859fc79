package sideband

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
)

// rounds bounds how often the threads are listed. What was made while the first ones were
// opened may not be followed yet, and is listed next; later on, threads that are made are
// those of followed ones, and are followed, too.
const rounds = 10

// openOwn opens the rings for some threads and what they start, where we may not watch
// CPUs. What others do goes unseen, and tracepoints need CAP_PERFMON.
func (rs *rings) openOwn() error {
	cpus, err := perf.OnlineCPUs(rs.opt.Sys)
	if err != nil {
		return err
	}
	rs.own, rs.tracepoints, rs.opt.ExecEvent, rs.probe, rs.raw = true, nil, 0, 0, false
	rs.x32 = false
	known := make(map[int]bool)
	for range rounds {
		tids, err := rs.opt.Threads()
		if err != nil {
			return fmt.Errorf("listing the threads of the perf side band: %w", err)
		}
		fresh := false
		for _, tid := range tids {
			if known[tid] {
				continue
			}
			known[tid], fresh = true, true
			if err := rs.openThread(tid, cpus); err != nil {
				return err
			}
		}
		if !fresh {
			break
		}
	}
	if len(rs.list) == 0 {
		return fmt.Errorf("opening a perf side band: %w", perf.ErrNoThreads)
	}
	return nil
}

// openThread opens the events of a thread on all CPUs. It may have ended.
func (rs *rings) openThread(tid int, cpus []int) error {
	for _, cpu := range cpus {
		err := rs.openThreadOn(tid, cpu)
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	return nil
}

// openThreadOn opens the event of a thread on a CPU, with a ring if the CPU has none.
func (rs *rings) openThreadOn(tid, cpu int) error {
	at := perf.OfThread(tid, cpu)
	for _, r := range rs.list {
		if r.CPU != cpu {
			continue
		}
		e := rs.opt.event(rs.clock, r.Size(), r.features)
		e.Inherit = true
		if err := r.add(&e, at); err != nil {
			return fmt.Errorf("opening the perf side band of CPU %d: %w", cpu, perf.Refusal(err))
		}
		return nil
	}
	r, err := rs.opt.newRing(at, cpu, rs.clock)
	if err != nil {
		return err
	}
	r.Begin(perf.Now(rs.clock))
	rs.list = append(rs.list, r)
	return nil
}

// Own reports whether only the threads of Options.Threads are followed, and what they
// start.
func (b *Band) Own() bool { return b.rings.own }
