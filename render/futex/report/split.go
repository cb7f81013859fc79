package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// mostBlocked is how many of the things that owners were blocked on stand in a line.
const mostBlocked = 3

// barged is before how much of the time the owner had barged.
const barged = "; barged "

// split says in a line what waits were spent on, "" if nothing is known of it.
func (t *text) split(s *futex.Split) string {
	if s == nil || !t.r.Scheduled {
		return ""
	}
	line := t.parts(s, "owner ran")
	if s.Barged > 0 {
		line += barged + phrase.Percent(s.Barged, s.Whole())
	}
	return line
}

// parts lists what a time was spent on.
func (t *text) parts(s *futex.Split, ran string) string {
	var out []string
	whole := s.Whole()
	add := func(what string, d tracefs.Time, more string) {
		if d > 0 {
			out = append(out, what+" "+phrase.Percent(d, whole)+more)
		}
	}
	add(ran, s.Ran, "")
	add("runnable", s.Runnable, "")
	add("blocked", s.Blocked, t.blockedOn(s, whole))
	add("hand-over", s.HandOver, "")
	add("unknown", s.Unknown, "")
	return strings.Join(out, ", ")
}

// blockedOn lists what owners were blocked on, in parentheses.
func (t *text) blockedOn(s *futex.Split, whole tracefs.Time) string {
	var out []string
	all := t.byWord(s.On)
	for _, on := range all[:min(len(all), mostBlocked)] {
		what := on.what
		if len(all) > 1 {
			what += " " + phrase.Percent(on.time, whole)
		}
		out = append(out, what)
	}
	if n := len(all) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// blockedFor is what owners were blocked on, and for how long.
type blockedFor struct {
	what string
	time tracefs.Time
}

// byWord adds up what has the same name, as several places of one function have, the
// longest first.
func (t *text) byWord(list []futex.BlockedOn) (out []blockedFor) {
	for i := range list {
		what := t.blockedWhat(&list[i])
		k := slices.IndexFunc(out, func(b blockedFor) bool { return b.what == what })
		if k < 0 {
			k, out = len(out), append(out, blockedFor{what: what})
		}
		out[k].time += list[i].Time
	}
	sorting.StableFunc(out, func(x, y blockedFor) int { return cmp.Compare(y.time, x.time) })
	return out
}

// blockedWhat names what an owner was blocked on.
func (t *text) blockedWhat(on *futex.BlockedOn) string {
	what := on.What.String()
	_, place, ok := phrase.Slept(on.At)
	switch {
	case ok && on.What == futex.BlockedIO:
		what += " in " + place
	case ok:
		what = place
	case on.What == futex.BlockedCall:
		what = on.Call
	case on.Lock != nil && on.Lock.Contends() && on.Lock.Rank > 0:
		what += fmt.Sprintf(" #%d", on.Lock.Rank)
	case on.Lock != nil:
		what = on.Lock.Kind.String() + " " + phrase.Printable(on.Lock.Name())
	case on.Address != 0:
		what += fmt.Sprintf(" %#x", on.Address)
	}
	return what
}

// splitJSON has parts that sum to the time of the waits: all but those of blocked_on
// and barged. The times of the roots, and no_root_ns, sum to the same without hand_over_ns.
type splitJSON struct {
	Ran       tracefs.Time    `json:"ran_ns"`
	Runnable  tracefs.Time    `json:"runnable_ns"`
	Blocked   tracefs.Time    `json:"blocked_ns"`
	BlockedOn []blockedOnJSON `json:"blocked_on"`
	HandOver  tracefs.Time    `json:"hand_over_ns"`
	Unknown   tracefs.Time    `json:"unknown_ns"`
	Barged    tracefs.Time    `json:"barged_ns"`
	Roots     []rootJSON      `json:"roots"`
	NoRoot    tracefs.Time    `json:"no_root_ns"`
}

type blockedOnJSON struct {
	What    string       `json:"what"`
	Address string       `json:"address,omitempty"`
	Kind    string       `json:"kind,omitempty"`
	Call    string       `json:"call,omitempty"`
	Time    tracefs.Time `json:"total_ns"`
	// At is where a thread sleeps in a call that the trace does not have.
	At *framejson.Frame `json:"at,omitempty"`
}

func splitOf(s *futex.Split, r *futex.Report) *splitJSON {
	if s == nil || !r.Scheduled {
		return nil
	}
	return &splitJSON{s.Ran, s.Runnable, s.Blocked, onOf(s.On), s.HandOver, s.Unknown, s.Barged, rootList(s.Roots), s.NoRoot}
}

func onOf(list []futex.BlockedOn) []blockedOnJSON {
	out := []blockedOnJSON{}
	for i := range list {
		on := &list[i]
		one := blockedOnJSON{What: on.What.String(), Call: on.Call, Time: on.Time}
		if f, _, ok := phrase.Slept(on.At); ok {
			one.At = framejson.One(f)
		}
		if on.Address != 0 {
			one.Address = framejson.Hex(on.Address)
		}
		if on.Lock != nil {
			one.Kind = on.Lock.Kind.String()
		}
		out = append(out, one)
	}
	return out
}
