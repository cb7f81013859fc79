package perf

import (
	"maps"
	"slices"
	"time"

	"ustack/tracefs"
)

// listAgain is how often the CPUs are listed to see whether one went online or
// offline. The tracepoint cpuhp_enter reports it earlier, see Hotplug.Step.
const listAgain = tracefs.Time(time.Second)

// Hotplug follows CPUs that go online and offline.
type Hotplug struct {
	sys     string
	checked tracefs.Time // when the CPUs were last listed
	// moves are the CPUs on their way, or on it a moment ago.
	moves map[int]*move
	// stale are CPUs that went offline: events that were opened for them do not come
	// back.
	stale map[int]bool
}

// move is what was seen of a CPU on its way.
type move struct {
	since, last tracefs.Time // the first step and the last one
	// up is the first step on the way online since the CPU had a ring, 0 for none; down
	// means that a step on the way offline came after it.
	up   tracefs.Time
	down bool
	// failed: no ring could be opened.
	failed bool
}

// NewHotplug follows the CPUs from a time on at which they were listed. sys is where
// sysfs is mounted.
func NewHotplug(sys string, t tracefs.Time) Hotplug {
	return Hotplug{sys: sys, checked: t, moves: make(map[int]*move), stale: make(map[int]bool)}
}

// Step notes a step of a CPU on its way online or offline.
func (h *Hotplug) Step(cpu int, on bool, t tracefs.Time) {
	if cpu < 0 || cpu >= MaxCPUs || h.moves == nil {
		return
	}
	m := h.moves[cpu]
	if m == nil {
		m = &move{since: t}
		h.moves[cpu] = m
	}
	m.last = t
	switch {
	case !on:
		h.stale[cpu] = true
		m.down = m.up > 0
	case m.up == 0:
		m.up = t
	}
}

// Online lists the CPUs that are online, if it is time to: nil if not, or if they
// cannot be listed. Without cpuhp_enter, a CPU that goes offline and online again
// within a second is not noticed, and its ring stays empty.
func (h *Hotplug) Online(t tracefs.Time) []int {
	if t-h.checked < listAgain && len(h.moves) == 0 {
		return nil
	}
	cpus, err := OnlineCPUs(h.sys)
	if err != nil || len(cpus) == 0 {
		h.checked = t
		return nil
	}
	return cpus
}

// Off reports whether a ring of a CPU is of no use any more: the CPU is offline, or
// was since.
func (h *Hotplug) Off(cpu int, online []int) bool {
	return !slices.Contains(online, cpu) || h.stale[cpu]
}

// Closed notes that the rings that are Off were closed.
func (h *Hotplug) Closed() { clear(h.stale) }

// Passed passes on which CPUs may have been online without a ring, and since when: they
// came and went again before they were listed, have not become ready for a second, or went
// before their ring could be opened.
// online are the CPUs that are listed, rings those that have a ring.
func (h *Hotplug) Passed(t tracefs.Time, online, rings []int, missed func(cpu int, since tracefs.Time)) {
	for _, cpu := range slices.Sorted(maps.Keys(h.moves)) {
		m := h.moves[cpu]
		switch {
		case slices.Contains(rings, cpu):
			m.up, m.down = 0, false // the ring has what the CPU did
		case m.up > 0 && !slices.Contains(online, cpu) && (m.down || m.failed || t-m.last >= listAgain):
			missed(cpu, m.up)
			m.up, m.down = 0, false
		}
	}
}

// Came returns since when a CPU without a ring may have been online.
func (h *Hotplug) Came(cpu int) (since tracefs.Time) {
	m := h.moves[cpu]
	switch {
	case m == nil:
		return h.checked
	case m.up > 0:
		return m.up
	}
	return m.since
}

// Opened notes that a CPU has its ring.
func (h *Hotplug) Opened(cpu int) { delete(h.moves, cpu) }

// Failed notes that a CPU still has no ring, so that it is listed again at once. again: that
// was so at the last reading.
func (h *Hotplug) Failed(cpu int, t tracefs.Time) (again bool) {
	m := h.moves[cpu]
	again = m != nil && m.failed
	h.moves[cpu] = &move{since: t, last: t, up: t, failed: true}
	return again
}

// Done ends the round that Online has begun. A CPU whose last step is a second old is
// where it was going to.
func (h *Hotplug) Done(t tracefs.Time) {
	for cpu, m := range h.moves {
		if t-m.last >= listAgain {
			delete(h.moves, cpu)
		}
	}
	h.checked = t
}
