package sideband

import (
	"slices"

	"ustack/tracefs"
)

// followCPUs opens rings for CPUs that went on, and closes those of CPUs that
// went off. What happened on a CPU between its coming and our looking is lost.
func (b *Band) followCPUs(t tracefs.Time) {
	cpus := b.hotplug.Online(t)
	if cpus == nil {
		return
	}
	b.closeOff(cpus)
	for _, cpu := range cpus {
		if !slices.ContainsFunc(b.rings, func(r *ring) bool { return r.CPU == cpu }) {
			b.cameOn(cpu, t)
		}
	}
	b.hotplug.Done(t)
}

// closeOff closes the rings of CPUs that are off, or were since they were opened.
func (b *Band) closeOff(cpus []int) {
	none := !slices.ContainsFunc(b.rings, func(r *ring) bool { return slices.Contains(cpus, r.CPU) })
	b.rings = slices.DeleteFunc(b.rings, func(r *ring) bool {
		if none || !b.hotplug.Off(r.CPU, cpus) {
			return false
		}
		_ = r.Close() // nothing is written to it any more
		return true
	})
	b.hotplug.Closed()
}

// cameOn opens the ring of a CPU that went on.
func (b *Band) cameOn(cpu int, t tracefs.Time) {
	since, soon := b.hotplug.Came(cpu, t)
	r, err := b.opt.newRing(cpu, b.clock)
	switch {
	case err == nil:
		t = b.Now() // nothing before that is in the ring
		b.addRing(r, t)
		b.hotplug.Opened(cpu)
	case soon:
		return // perf will have it in a moment
	}
	b.found.Came++
	b.gap(cpu, 0, since, t)
}
