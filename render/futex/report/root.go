package report

import (
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// root says in a line who was waited for in the end, and where in the code, "" if that
// is unknown.
func (t *text) root(s *futex.Split) string {
	if s == nil || !t.r.Scheduled || len(s.Roots) == 0 {
		return ""
	}
	r := &s.Roots[0]
	line := phrase.Thread(r.TID, r.Comm) + " " + r.Did
	if r.Did == "blocked" {
		line += " in " + t.blockedWhat(&r.On)
	}
	line += " " + phrase.Percent(r.Time, s.Whole())
	if r.Chained > 0 {
		line += " (not the owner itself " + phrase.Percent(r.Chained, s.Whole()) + ")"
	}
	if r.Stack != nil {
		line += " at " + phrase.Callers(r.Stack)
	}
	return line
}

// rootJSON is a thread that did not itself wait for a lock, and what it did.
type rootJSON struct {
	TID     int32             `json:"tid"`
	Comm    string            `json:"comm,omitempty"`
	Did     string            `json:"did"`
	On      string            `json:"on,omitempty"`
	Call    string            `json:"call,omitempty"`
	Time    tracefs.Time      `json:"total_ns"`
	Chained tracefs.Time      `json:"chained_ns"`
	Frames  []framejson.Frame `json:"frames,omitempty"`
}

func rootsOf(s *futex.Split) []rootJSON {
	out := []rootJSON{}
	for i := range s.Roots {
		r := &s.Roots[i]
		one := rootJSON{TID: r.TID, Comm: r.Comm, Did: r.Did, Time: r.Time, Chained: r.Chained}
		if r.Did == "blocked" {
			one.On, one.Call = r.On.What.String(), r.On.Call
		}
		if r.Stack != nil {
			one.Frames = framejson.Frames(r.Stack)
		}
		out = append(out, one)
	}
	return out
}
