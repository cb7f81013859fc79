package sideband

import (
	"slices"

	"ustack/tracefs"
)

// followCPUs opens rings for CPUs that went online, and closes the rings of
// CPUs that went offline, once it has read what they got since the last reading.
// Records of a CPU from before its ring was opened are lost.
func (b *Band) followCPUs() {
	t := b.found.Until
	cpus := b.hotplug.Online(t)
	if cpus == nil {
		return
	}
	if b.rings.retire(&b.hotplug, cpus, b.Now()) {
		b.read()
		b.rings.closeRetired(func(cpu int, from, to tracefs.Time) {
			b.found.Left++
			b.gap(cpu, 0, from, to)
		})
	}
	for _, cpu := range cpus {
		if !slices.ContainsFunc(b.rings.list, func(r *ring) bool { return r.CPU == cpu }) {
			cameOn(b, cpu, t)
		}
	}
	b.hotplug.Done(t)
}

// cameOn opens the ring of a CPU that went online.
func cameOn(b *Band, cpu int, t tracefs.Time) {
	since, soon := b.hotplug.Came(cpu, t)
	r, err := b.opt.newRing(cpu, b.clock)
	switch {
	case err == nil:
		t = b.Now() // nothing before that is in the ring
		b.rings.addRing(r, t)
		b.hotplug.Opened(cpu)
	case soon:
		return // perf will have it in a moment
	}
	b.found.Came++
	b.gap(cpu, 0, since, t)
}
