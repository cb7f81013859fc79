package report

import (
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/tracefs"
)

// inversionJSON is how long a thread waited for an owner of lower priority that did not run,
// as a thread of a priority between these ran on its CPU.
type inversionJSON struct {
	Address string       `json:"address"`
	Waiter  rankedJSON   `json:"waiter"`
	Owner   rankedJSON   `json:"owner"`
	Middle  rankedJSON   `json:"ran"`
	Time    tracefs.Time `json:"total_ns"`
	Waits   int64        `json:"waits"`
}

// rankedJSON is a thread with its priority as the kernel has it: rtprio 1 is 98, nice 0 is 120.
type rankedJSON struct {
	TID  int32  `json:"tid"`
	Comm string `json:"comm,omitempty"`
	Prio int32  `json:"prio"`
}

func rankedOf(p *futex.Prioritized) rankedJSON {
	return rankedJSON{p.TID, framejson.Clean(p.Comm), p.Prio}
}

func inversionsOf(r *futex.Report) []inversionJSON {
	out := []inversionJSON{}
	for i := range r.Inversions {
		x := &r.Inversions[i]
		out = append(out, inversionJSON{framejson.Hex(x.Lock.Address), rankedOf(&x.Waiter), rankedOf(&x.Owner), rankedOf(&x.Middle), x.Time, x.Waits})
	}
	return out
}
