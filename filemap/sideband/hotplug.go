package sideband

import (
	"slices"
	"time"

	"ustack/tracefs"
)

// listAgain is how often the CPUs are listed to see whether one went on or off.
// The tracepoint cpuhp_enter says so earlier.
const listAgain = tracefs.Time(time.Second)

// hotplug are CPUs on their way on or off.
type hotplug struct {
	// since is when the first step of each was seen, of which it is not known yet
	// where it leads.
	since map[int]tracefs.Time
	// stale are those that went off: what their rings were opened for does not
	// come back.
	stale map[int]bool
}

// switching notes a step of a CPU on its way on or off.
func (b *Band) switching(cpu int, on bool, t tracefs.Time) {
	h := &b.hotplug
	if cpu < 0 || cpu >= maxCPUs {
		return
	}
	if h.since == nil {
		h.since, h.stale = make(map[int]tracefs.Time), make(map[int]bool)
	}
	if _, ok := h.since[cpu]; !ok {
		h.since[cpu] = t
	}
	h.stale[cpu] = h.stale[cpu] || !on
}

// followCPUs opens rings for CPUs that went on, and closes those of CPUs that
// went off. What happened on a CPU between its coming and our looking is lost.
// Where cpuhp_enter cannot be had, a CPU that goes off and on again within
// listAgain is not noticed, and its ring stays empty.
func (b *Band) followCPUs(t tracefs.Time) {
	if t-b.checked < listAgain && len(b.hotplug.since) == 0 {
		return
	}
	cpus, err := onlineCPUs(b.opt.Sys)
	if err != nil || len(cpus) == 0 {
		b.checked = t
		return
	}
	b.closeOff(cpus)
	for _, cpu := range cpus {
		if !slices.ContainsFunc(b.rings, func(r *ring) bool { return r.cpu == cpu }) {
			b.cameOn(cpu, t)
		}
	}
	for cpu, since := range b.hotplug.since {
		if t-since >= listAgain {
			delete(b.hotplug.since, cpu)
		}
	}
	b.checked = t
}

// closeOff closes the rings of CPUs that are off, or were since they were opened.
func (b *Band) closeOff(cpus []int) {
	none := !slices.ContainsFunc(b.rings, func(r *ring) bool { return slices.Contains(cpus, r.cpu) })
	b.rings = slices.DeleteFunc(b.rings, func(r *ring) bool {
		if none || slices.Contains(cpus, r.cpu) && !b.hotplug.stale[r.cpu] {
			return false
		}
		_ = r.close() // nothing is written to it any more
		return true
	})
	clear(b.hotplug.stale)
}

// cameOn opens the ring of a CPU that went on.
func (b *Band) cameOn(cpu int, t tracefs.Time) {
	since, seen := b.hotplug.since[cpu]
	if !seen {
		since = b.checked
	}
	r, err := b.opt.newRing(cpu, b.clock)
	switch {
	case err == nil:
		t = b.Now() // nothing before that is in the ring
		r.last = t
		b.addRing(r)
		delete(b.hotplug.since, cpu)
	case seen && t-since < listAgain:
		return // perf will have it in a moment
	}
	b.found.Came++
	b.gap(cpu, 0, since, t)
}
