package futex

import (
	"cmp"
	"fmt"
	"slices"

	"ustack/render/phrase"
	"ustack/tracefs"
)

// hintOwn is about locks of a program's own that have no role.
const hintOwn = "threads of %s wake each other at %d futexes, one for each thread, which can be locks of its own: %s"

// solo is the waiting of a process at futexes at which one thread waits each.
type solo struct {
	whose
	futexes int
	time    tracefs.Time
	named   bool // functions have been looked up
}

// own returns a hint at locks that are made of a futex for each thread, as libraries make
// them, "" if no process waits more at such futexes than for locks: those that wake threads
// wait there themselves. They may signal each other, too.
func (rp *reporter) own(r *Report, rows []*Lock) string {
	all := make(map[*process]*solo)
	var most *solo
	var process *Process
	for _, row := range rows {
		if row.Process == nil || row.Contends() || row.Kind != Signal && row.Kind != Condvar && row.Kind != Semaphore {
			continue
		}
		for _, l := range row.parts {
			if l.proc == nil || l.key.shared || len(l.waiters.list) != 1 || l.waiters.rest.Count > 0 {
				continue
			}
			w := all[l.proc.find()]
			if w == nil {
				w = &solo{whose: whose{make(map[int32]bool), make(map[int32]int64)}}
				all[l.proc.find()] = w
			}
			w.add(l)
			w.futexes++
			w.named = w.named || rp.namedWaits(l)
			if w.time += l.time; most == nil || w.time > most.time {
				most, process = w, row.Process
			}
		}
	}
	if most == nil || most.futexes < 2 || !most.mutual() || most.time <= r.Contended.Time+r.Contended.OpenTime {
		return ""
	}
	see := "--symbols names the functions that wait"
	if most.named {
		see = "the functions that wait show whether they are"
	}
	return fmt.Sprintf(hintOwn, phrase.Printable(cmp.Or(process.Program, process.Comm, tracefs.CommUnknown)), most.futexes, see)
}

// namedWaits reports whether functions that wait for a futex have been looked up.
func (rp *reporter) namedWaits(l *lock) bool {
	return slices.ContainsFunc(l.flows.list, func(p part[flow]) bool {
		s := rp.stacks.Get(p.key.wait)
		return s != nil && s.Named()
	})
}
