package report

import (
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// Bounds of the section of chains.
const (
	mostChained = 3  // roots of a chain
	leastChain  = 50 // a chain is shown that is at least one part in so many of all waits
)

// writeChains shows the chain of locks that took longest, and the next ones as Top allows.
func writeChains(t *text) {
	r := t.r
	if !r.Scheduled || len(r.Chains) == 0 || r.Chains[0].Time*leastChain < r.Contended.Time {
		return
	}
	n := len(r.Chains)
	if t.opt.Top > 0 {
		n = max(t.opt.Top/4, 1)
	}
	t.f("\nOwners that waited for other locks")
	if n = min(n, len(r.Chains)); n < len(r.Chains) {
		t.f(" (the first %d of %d chains)", n, len(r.Chains))
	}
	t.f("\n\n")
	for _, c := range r.Chains[:n] {
		writeChain(t, c)
	}
}

// writeChain shows a chain in no more than six lines.
func writeChain(t *text, c *futex.Chain) {
	t.f("  %s (%s of all) in %s for #%d,", t.time(c.Time), phrase.Percent(c.Time, t.r.Contended.Time), phrase.Plural64(c.Waits, "wait"), c.Lock.Rank)
	whose := "whose owner waited for"
	for i := range c.On[:min(len(c.On), mostChained)] {
		t.f(" %s %s", whose, t.blockedWhat(&c.On[i]))
		whose = "and that owner for"
	}
	if n := len(c.On) - mostChained; n > 0 {
		t.f(" and so on, %s more", phrase.Plural(n, "lock"))
	}
	t.b.WriteByte('\n')
	title := "in the end"
	for i := range c.Roots[:min(len(c.Roots), mostChained)] {
		t.f("      %-11s %s\n", title, rootLine(t, &c.Roots[i], c.Time))
		title = ""
	}
	if n := len(c.Roots) - mostChained; n > 0 {
		t.f("      %-11s %d more\n", "", n)
	}
}

// chainJSON is a lock that was waited for, the locks that its owner waited for, the owner of
// that, and so on, and who did not wait for a lock at the end.
type chainJSON struct {
	Address string          `json:"address"`
	On      []blockedOnJSON `json:"owners_wait_for"`
	Time    tracefs.Time    `json:"total_ns"`
	Waits   int64           `json:"waits"`
	Roots   []rootJSON      `json:"roots"`
}

func chainsOf(r *futex.Report) []chainJSON {
	out := []chainJSON{}
	for _, c := range r.Chains {
		out = append(out, chainJSON{framejson.Hex(c.Lock.Address), onOf(c.On), c.Time, c.Waits, rootList(c.Roots)})
	}
	return out
}

// stepJSON is a part of a wait: who owned the lock, who owned the one for which that one
// waited, and so on, and what the last one did.
type stepJSON struct {
	From   tracefs.Time    `json:"from_ns"`
	To     tracefs.Time    `json:"to_ns"`
	Owners []stepOwnerJSON `json:"owners"`
	Did    string          `json:"did"`
	On     string          `json:"on,omitempty"`
	Call   string          `json:"call,omitempty"`
}

// stepOwnerJSON is an owner; Address is what it waited for, absent of the last one.
type stepOwnerJSON struct {
	TID     int32  `json:"tid"`
	Comm    string `json:"comm,omitempty"`
	Address string `json:"waits_for,omitempty"`
}
