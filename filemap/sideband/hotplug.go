package sideband

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// followCPUs opens rings for CPUs that went online, and closes the rings of
// CPUs that went offline, once it has read what they got since the last reading.
// Records of a CPU from before its ring was opened are lost, and all of a CPU that came and
// went in between.
func (b *Band) followCPUs() {
	t := b.found.Until
	cpus := b.hotplug.Online(t)
	if cpus == nil {
		return
	}
	b.hotplug.Passed(t, cpus, b.CPUs(), func(cpu int, since tracefs.Time) {
		b.found.Came++
		b.found.Left++
		b.gap(cpu, 0, since, t)
	})
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

// cameOn opens the ring of a CPU that went online. As long as it cannot be opened, each
// Drain has a gap.
func cameOn(b *Band, cpu int, t tracefs.Time) {
	since, soon := b.hotplug.Came(cpu, t)
	again := false
	r, err := b.opt.newRing(cpu, b.clock)
	switch {
	case err == nil:
		t = b.Now() // nothing before that is in the ring
		b.rings.addRing(r, t)
		b.hotplug.Opened(cpu)
	case soon && errors.Is(err, unix.ENODEV):
		return // perf will have it in a moment, before a task can run there
	default:
		again = b.hotplug.Failed(cpu, t)
	}
	if !again {
		b.found.Came++
	}
	b.gap(cpu, 0, since, t)
}
