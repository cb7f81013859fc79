package perf

import (
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
	// since is when the first step of each CPU on its way was seen, whose end is
	// unknown yet.
	since map[int]tracefs.Time
	// stale are CPUs that went offline: events that were opened for them do not come
	// back.
	stale map[int]bool
}

// NewHotplug follows the CPUs from a time on at which they were listed. sys is where
// sysfs is mounted.
func NewHotplug(sys string, t tracefs.Time) Hotplug {
	return Hotplug{sys: sys, checked: t, since: make(map[int]tracefs.Time), stale: make(map[int]bool)}
}

// Step notes a step of a CPU on its way online or offline.
func (h *Hotplug) Step(cpu int, on bool, t tracefs.Time) {
	if cpu < 0 || cpu >= MaxCPUs || h.since == nil {
		return
	}
	if _, ok := h.since[cpu]; !ok {
		h.since[cpu] = t
	}
	h.stale[cpu] = h.stale[cpu] || !on
}

// Online lists the CPUs that are online, if it is time to: nil if not, or if they
// cannot be listed. Without cpuhp_enter, a CPU that goes offline and online again
// within a second is not noticed, and its ring stays empty.
func (h *Hotplug) Online(t tracefs.Time) []int {
	if t-h.checked < listAgain && len(h.since) == 0 {
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

// Came returns since when a CPU without a ring may have been online. soon: it was
// noticed just now, so perf may not have it yet.
func (h *Hotplug) Came(cpu int, t tracefs.Time) (since tracefs.Time, soon bool) {
	since, seen := h.since[cpu]
	if !seen {
		return h.checked, false
	}
	return since, t-since < listAgain
}

// Opened notes that a CPU has its ring.
func (h *Hotplug) Opened(cpu int) { delete(h.since, cpu) }

// Done ends the round that Online has begun.
func (h *Hotplug) Done(t tracefs.Time) {
	for cpu, since := range h.since {
		if t-since >= listAgain {
			delete(h.since, cpu)
		}
	}
	h.checked = t
}
