package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"ustack/render/brief"
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// holdText writes what is known of holds.
type holdText struct{ *text }

// held says in a line how long threads held a lock, "" if nothing is known of it. What may be
// the longer part is first: a stall can be a single hold of which the length is not known,
// and a screen cuts the line.
func (t holdText) held(h *futex.Holds) string {
	if h == nil || h.Exact == 0 && (h.Unbounded > 0 && h.Low == 0 || !t.r.Scheduled) {
		return "" // bounds that say nothing are left out
	}
	more := h.Count - h.Exact
	switch {
	case more == 0:
		return t.exact(h, "hold")
	case h.Exact == 0:
		return t.bounds(h) + " in " + phrase.Plural64(more, "hold")
	case h.Unbounded == 0 && h.High <= h.Total:
		return fmt.Sprintf("%s; %s in %s", t.exact(h, "hold"), t.bounds(h), phrase.Plural64(more, "other"))
	}
	return fmt.Sprintf("%s in %s; %s", t.bounds(h), phrase.Plural64(more, "hold"), t.exact(h, "other"))
}

// fitting is held in one line of a brief report, with the longest hold rather than the p99
// and the mean.
func (t holdText) fitting(h *futex.Holds) string {
	line := t.held(h)
	if !t.opt.Brief || h == nil || h.Exact == 0 {
		return line
	}
	for _, less := range [...]string{", p99 " + t.time(h.P99), ", mean " + t.time(h.Total/tracefs.Time(h.Exact))} {
		if utf8.RuneCountInString(line) > brief.Width-labelled {
			line = strings.Replace(line, less, "", 1)
		}
	}
	return line
}

// exact says how long the holds took of which the length is known, "" if there are none.
func (t holdText) exact(h *futex.Holds, noun string) string {
	switch h.Exact {
	case 0:
		return ""
	case 1:
		return t.time(h.Total) + " in " + phrase.Plural64(1, noun)
	}
	return fmt.Sprintf("%s in %s, mean %s, p99 %s, max %s", t.time(h.Total), phrase.Plural64(h.Exact, noun),
		t.time(h.Total/tracefs.Time(h.Exact)), t.time(h.P99), t.time(h.Max))
}

// bounds says how long the holds took together of which the length is not known.
func (t holdText) bounds(h *futex.Holds) string {
	switch {
	case h.Unbounded > 0 && h.Low == 0:
		return "an unknown time"
	case h.Unbounded > 0:
		return "at least " + t.time(h.Low)
	case h.Low == 0:
		return "at most " + t.time(h.High)
	}
	return t.time(h.Low) + " to " + t.time(h.High)
}

// doing says in a line what holders did, "" if nothing is known of it.
func (t holdText) doing(d *futex.Doing) string {
	if !t.r.Scheduled || d.Whole() == 0 {
		return ""
	}
	s := futex.Split{Ran: d.Ran, Runnable: d.Runnable, Blocked: d.Blocked, On: d.On, Unknown: d.Unknown}
	return t.parts(&s, "ran")
}

// off says in a line where a holder did not run, and what it did there.
func (t holdText) off(s *futex.HoldStack, whole tracefs.Time) string {
	line := s.Did
	if s.Did == "blocked" {
		line += " in " + t.blockedWhat(&s.On)
	}
	line += " " + phrase.Percent(s.Time, whole)
	return line + leftAt(&s.On, s.Stack)
}

// holds writes what is known of the holds of a lock.
func (t holdText) holds(h *futex.Holds) {
	s := t.held(h)
	if s == "" {
		return
	}
	t.f("      held: %s\n", s)
	if s := t.doing(&h.Did); s != "" {
		t.f("      holder: %s\n", s)
	}
	title := "held at"
	for i := range h.Stacks[:t.shown(len(h.Stacks))] {
		if h.Stacks[i].Stack != nil {
			t.f("      %-11s %s\n", title, t.off(h.Stacks[i], h.Did.Whole()))
			title = ""
		}
	}
	t.sampled("ran at", h.Samples, h.Sampled, t.shown(mostPlaces))
}

// longHolds lists the longest holds.
func (t holdText) longHolds() {
	title := "\nLongest holds of a lock that others waited for, or the holder had\n\n"
	for _, h := range t.r.LongHolds {
		if h.Low == 0 && (h.High < 0 || !t.r.Scheduled) {
			continue // bounds that say nothing
		}
		t.b.WriteString(title)
		title = ""
		t.f("  %s\n", t.hold(h))
		if s := t.doing(&h.Did); s != "" {
			t.f("      %s\n", s)
		}
		t.sampled("ran at", h.Samples, h.Sampled, 1)
		if h.Stack != nil {
			t.f("      released at %s\n", phrase.Frames(h.Stack))
		}
	}
}

// hold returns a single hold in one line.
func (t holdText) hold(h *futex.Hold) string {
	long := t.time(h.Low)
	switch {
	case h.High < 0:
		long = "at least " + long
	case !h.Exact:
		long += " to " + t.time(h.High)
	}
	s := fmt.Sprintf("%s until %s, %s on #%d", long, phrase.Stamp(h.To, t.r.Ticks), phrase.Thread(h.TID, h.Comm), h.Lock.Rank)
	if h.Waiters > 0 {
		s += fmt.Sprintf(", %d waiting then", h.Waiters)
	}
	return s
}

// holdsJSON are the contended holds of a lock: exact many took total_ns, the others low_ns to
// high_ns together, without the unbounded ones in high_ns.
type holdsJSON struct {
	Count     int64        `json:"count"`
	Exact     int64        `json:"exact"`
	Total     tracefs.Time `json:"total_ns"`
	P50       tracefs.Time `json:"p50_ns"`
	P99       tracefs.Time `json:"p99_ns"`
	Max       tracefs.Time `json:"max_ns"`
	Low       tracefs.Time `json:"low_ns"`
	High      tracefs.Time `json:"high_ns"`
	Unbounded int64        `json:"unbounded"`
	Lost      int64        `json:"lost"`
	doingJSON
	Stacks   []holdStackJSON `json:"stacks"`
	Released []stackJSON     `json:"released"`
	Samples  int64           `json:"samples,omitempty"`
	Sampled  []sampledJSON   `json:"sampled,omitempty"`
}

// doingJSON is what a holder did in total_ns and low_ns: its parts without blocked_on sum
// to that.
type doingJSON struct {
	Ran       tracefs.Time    `json:"ran_ns"`
	Runnable  tracefs.Time    `json:"runnable_ns"`
	Blocked   tracefs.Time    `json:"blocked_ns"`
	BlockedOn []blockedOnJSON `json:"blocked_on"`
	Unknown   tracefs.Time    `json:"unknown_ns"`
}

type holdStackJSON struct {
	Did    string            `json:"did"`
	On     string            `json:"on,omitempty"`
	Call   string            `json:"call,omitempty"`
	Time   tracefs.Time      `json:"total_ns"`
	Frames []framejson.Frame `json:"stack,omitempty"`
}

type holdJSON struct {
	TID     int32         `json:"tid"`
	Comm    string        `json:"comm"`
	Address string        `json:"address"`
	To      tracefs.Time  `json:"until_ns"`
	Exact   bool          `json:"exact"`
	Low     tracefs.Time  `json:"low_ns"`
	High    *tracefs.Time `json:"high_ns,omitempty"`
	Waited  bool          `json:"waited"`
	Waiters int           `json:"waiters"`
	doingJSON
	Stack   []framejson.Frame `json:"stack,omitempty"`
	Samples int64             `json:"samples,omitempty"`
	Sampled []sampledJSON     `json:"sampled,omitempty"`
}

func doingOf(d *futex.Doing) doingJSON {
	return doingJSON{d.Ran, d.Runnable, d.Blocked, onOf(d.On), d.Unknown}
}

func holdsOf(h *futex.Holds) *holdsJSON {
	if h == nil {
		return nil
	}
	out := &holdsJSON{h.Count, h.Exact, h.Total, h.P50, h.P99, h.Max, h.Low, h.High, h.Unbounded, h.Lost, doingOf(&h.Did),
		[]holdStackJSON{}, stacksOf(h.Released, h.Did.Whole()), h.Samples, sampledOf(h.Sampled)}
	for i := range h.Stacks {
		s := h.Stacks[i]
		one := holdStackJSON{Did: s.Did, Time: s.Time, Frames: framejson.Frames(s.Stack)}
		if s.Did == "blocked" {
			one.On, one.Call = s.On.What.String(), s.On.Call
		}
		out.Stacks = append(out.Stacks, one)
	}
	return out
}

func longHoldsOf(list []*futex.Hold) []holdJSON {
	out := []holdJSON{}
	for _, h := range list {
		one := holdJSON{TID: h.TID, Comm: framejson.Clean(h.Comm), Address: framejson.Hex(h.Lock.Address), To: h.To, Exact: h.Exact, Low: h.Low,
			Waited: h.Waited, Waiters: h.Waiters, doingJSON: doingOf(&h.Did), Stack: framejson.Frames(h.Stack),
			Samples: h.Samples, Sampled: sampledOf(h.Sampled)}
		if h.High >= 0 {
			one.High = &h.High
		}
		out = append(out, one)
	}
	return out
}
