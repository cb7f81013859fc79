package report

import (
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// root says in a line who was waited for in the end, and where in the code, "" if that
// is unknown.
func root(t *text, s *futex.Split) string {
	if s == nil || !t.r.Scheduled || len(s.Roots) == 0 {
		return ""
	}
	return rootLine(t, &s.Roots[0], s.Whole())
}

// rootLine says what a root did, its share, and where.
func rootLine(t *text, r *futex.Root, whole tracefs.Time) string {
	line := phrase.Thread(r.TID, r.Comm) + " " + r.Did
	if r.Did == "blocked" {
		line += " in " + t.blockedWhat(&r.On)
	}
	line += " " + phrase.Percent(r.Time, whole)
	if r.Chained > 0 {
		line += " (not the owner itself " + phrase.Percent(r.Chained, whole) + ")"
	}
	return line + leftAt(&r.On, r.Stack)
}

// leftAt says where in the code a thread left its CPU, "" if what it was blocked on says so.
func leftAt(on *futex.BlockedOn, s *futex.Stack) string {
	if s == nil {
		return ""
	}
	at := phrase.Callers(s)
	if f, _, ok := phrase.Slept(on.At); ok && at == phrase.Frame(f) {
		return ""
	}
	return " at " + at
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

func rootList(list []futex.Root) []rootJSON {
	out := []rootJSON{}
	for i := range list {
		r := &list[i]
		one := rootJSON{TID: r.TID, Comm: framejson.Clean(r.Comm), Did: r.Did, Time: r.Time, Chained: r.Chained}
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
