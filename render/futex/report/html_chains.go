//go:build !device

package report

import (
	"ustack/render/futex"
	"ustack/render/phrase"
)

// chainOf is who was waited for during a wait that is drawn: the number of its line, when it
// began, and its parts in order, without those in which that is unknown. A part is from when,
// how long, a place in did, what the last thread was blocked on and its stack (a name and a
// stack, -1 if it was not, or there is none), and the names of the threads, from the owner of
// the lock to the one at the end of the chain; each but the last one waited for the next.
type chainOf struct {
	Line  int   `json:"line"`
	From  int64 `json:"from"`
	Parts []row `json:"parts"`
}

// did are what a thread at the end of a chain does.
var did = [...]string{"ran", "runnable", "blocked"}

// maxChainParts bounds the parts of all waits together.
const maxChainParts = 1 << 15

// chains adds who was waited for during the longest waits, which alone have that.
func (c *collector) chains() {
	lines := make(map[int32]int)
	for i, th := range c.shown {
		lines[th.tid] = i
	}
	t := &text{r: c.r}
	seen, parts := make(map[[2]int64]bool), 0
	add := func(w *futex.Wait) {
		line, ok := lines[w.TID]
		key := [2]int64{int64(line), int64(w.From - c.r.Start)}
		if !ok || len(w.Steps) == 0 || seen[key] || parts+len(w.Steps) > maxChainParts {
			return
		}
		seen[key] = true
		parts += len(w.Steps)
		one := chainOf{Line: line, From: key[1]}
		for i := range w.Steps {
			one.Parts = append(one.Parts, c.part(t, &w.Steps[i]))
		}
		c.out.Chains = append(c.out.Chains, one)
	}
	for _, w := range c.r.Longest {
		add(w)
	}
	for _, l := range c.r.Locks {
		if l.Longest != nil {
			add(l.Longest)
		}
	}
}

// part returns a step as the page reads it.
func (c *collector) part(t *text, s *futex.Step) row {
	b := row{int64(s.From - c.r.Start), int64(s.To - s.From), 0, -1, -1}
	for i, what := range did {
		if what == s.Did {
			b[2] = int64(i)
		}
	}
	if s.Did == "blocked" {
		b[3] = int64(c.words.name(t.blockedWhat(&s.On)))
	}
	if s.Stack != nil {
		b[4] = int64(c.words.stack(s.Stack, ""))
	}
	for _, o := range s.Owners {
		b = append(b, int64(c.words.name(phrase.Thread(o.TID, o.Comm))))
	}
	return b
}
