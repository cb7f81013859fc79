package sideband

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// rings are the rings of all CPUs, with the events whose records they have.
type rings struct {
	opt   *Options
	clock int32
	list  []*ring
	// tracepoints are those that are open on all CPUs.
	tracepoints []Tracepoint
	noData      bool // mappings that are not code go unseen
	own         bool // see Options.Threads
	// probe is the type of events that are kprobes, 0 if there are none; raw means that
	// the tracepoint of all system calls stands for them, see rawCalls.
	probe        uint32
	raw          bool
	x32          bool // 64-bit processes may make system calls of the x32 ABI
	compatUnseen bool
}

// open opens the rings, of all CPUs that are online if we may.
func (rs *rings) open() error {
	err := rs.openAll()
	if rs.opt.Threads != nil && len(rs.list) == 0 && errors.Is(err, perf.ErrDenied) {
		return rs.openOwn()
	}
	return err
}

// openAll opens the rings of the CPUs that are online.
func (rs *rings) openAll() error {
	cpus, err := perf.OnlineCPUs(rs.opt.Sys)
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		r, err := rs.opt.newRing(perf.OnCPU(cpu), cpu, rs.clock)
		if errors.Is(err, unix.ENODEV) {
			continue // it has gone off since
		}
		if err != nil {
			return err
		}
		rs.addRing(r, perf.Now(rs.clock))
	}
	if len(rs.list) == 0 {
		return fmt.Errorf("opening a perf side band: %w", perf.ErrUnsupported)
	}
	return nil
}

// addRing takes a ring of a CPU that has all records since a time, with its
// tracepoints.
func (rs *rings) addRing(r *ring, since tracefs.Time) {
	r.Begin(since)
	rs.list = append(rs.list, r)
	soft := rs.openTracepoints(r, since)
	if soft != nil {
		rs.list = append(rs.list, soft)
	}
	rs.openData(soft)
	rs.openCompat(soft)
	rs.compatUnseen = rs.compatUnseen || (rs.raw || rs.x32) && !rs.reports(compatCall)
}

// reportsLoaded reports whether the kernel reports the end of an exec.
func (rs *rings) reportsLoaded() bool { return len(rs.list) > 0 && rs.list[0].features.exec }

// retire notes at t which rings are of CPUs that are offline, or were since they were
// opened: nothing is written to these any more. It reports whether there are any. What
// they have is read once more, see closeRetired.
func (rs *rings) retire(hotplug *perf.Hotplug, cpus []int, t tracefs.Time) (any bool) {
	none := !slices.ContainsFunc(rs.list, func(r *ring) bool { return slices.Contains(cpus, r.CPU) })
	for _, r := range rs.list {
		if !none && r.gone == 0 && hotplug.Off(r.CPU, cpus) {
			r.gone, any = t, true
		}
	}
	hotplug.Closed()
	return any
}

// closeRetired closes the rings that were read after their CPU went offline, and passes
// on from when until when records of it may be missing. The kernel stops recording before
// the last task leaves the CPU (CPUHP_AP_PERF_ONLINE, and CPUHP_AP_SCHED_WAIT_EMPTY after
// it, in include/linux/cpuhotplug.h): after the last record, that is.
func (rs *rings) closeRetired(missing func(cpu int, from, to tracefs.Time)) {
	left := make(map[int]gap)
	rs.list = slices.DeleteFunc(rs.list, func(r *ring) bool {
		if r.gone == 0 {
			return false
		}
		left[r.CPU] = gap{from: max(left[r.CPU].from, r.Last()), to: r.gone}
		_ = r.Close()
		return true
	})
	for cpu, g := range left {
		missing(cpu, min(g.from, g.to), g.to)
	}
}
