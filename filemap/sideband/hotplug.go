package sideband

import (
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/perf"
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

// came opens the ring of a CPU. If only some threads are followed, which of them there are now
// is unknown.
func (rs *rings) came(cpu int) (*ring, error) {
	if rs.own {
		return nil, perf.ErrDenied
	}
	return rs.opt.newRing(perf.OnCPU(cpu), cpu, rs.clock)
}

// cameOn opens the ring of a CPU that went online. As long as it cannot be opened, each
// Drain has a gap: perf may not have the CPU yet, or not any more, after tasks ran there.
func cameOn(b *Band, cpu int, t tracefs.Time) {
	since, again := b.hotplug.Came(cpu), false
	if r, err := b.rings.came(cpu); err != nil {
		again = b.hotplug.Failed(cpu, t)
	} else {
		t = b.Now() // nothing before that is in the ring
		b.rings.addRing(r, t)
		b.hotplug.Opened(cpu)
	}
	if !again {
		b.found.Came++
	}
	b.gap(cpu, 0, since, t)
}
