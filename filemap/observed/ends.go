package observed

import "ustack/tracefs"

// end is how a thread went off its CPU for the last time: it had ended by then, and
// had given back its memory. Mappings of a process were read before its last thread
// did so.
type end struct {
	at   tracefs.Time
	comm string
}

// maxEnds bounds the threads whose end is kept.
const maxEnds = 1 << 16

// Ended takes that a thread went off its CPU in state X or Z at a time of the trace.
func (e *Mappings) Ended(tid int32, comm []byte, t tracefs.Time) {
	if c := e.clocks; c != nil && tid > 0 && comm != nil && len(c.ends) < maxEnds {
		c.ends[tid] = end{t, string(comm)}
	}
}

// Lives takes that a thread ran at a time of the trace. If that is after its end, it
// is another one that got its number: by exec, or because it was free.
func (e *Mappings) Lives(tid int32, t tracefs.Time) {
	if e.clocks == nil {
		return
	}
	if x, ended := e.clocks.ends[tid]; ended && x.at < t {
		delete(e.clocks.ends, tid)
	}
}

// hearEnds takes what the ends of processes say of the clocks: what was read of one
// was read before. All of its threads must have ended, as mappings can be read by
// any of them, and the first one must have had the name that was read last.
func (c *calibration) hearEnds(d *Dump) {
	all := make(map[int32]tracefs.Time)
	for pid, versions := range d.spaces {
		if x, ended := c.ends[pid]; ended && versions[len(versions)-1].comm != "" && versions[len(versions)-1].isNamed([]byte(x.comm)) {
			all[pid] = x.at
		}
	}
	for tid, pid := range d.tids {
		x, ended := c.ends[tid]
		if last, known := all[pid]; known && ended {
			all[pid] = max(last, x.at)
		} else if known {
			delete(all, pid)
		}
	}
	for pid, at := range all {
		versions := d.spaces[pid]
		c.hear(pid, never, at-versions[len(versions)-1].at)
	}
}
