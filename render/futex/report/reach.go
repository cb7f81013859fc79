package report

import (
	"ustack/render"
	"ustack/render/phrase"
)

// reach says how complete the stacks of waits are, and those of releases if any was unwound.
func (t *text) reach() {
	t.reachOfWaits()
	if r := t.r.Released; r != nil && r.Unwound > 0 {
		t.f("Releases: of %s, %s.\n", phrase.Plural64(r.Stacks, "stack"), render.ReachWords(r))
	}
}

func (t *text) reachOfWaits() {
	if r := t.r.Reach; r != nil {
		t.f("Stacks: of %s, %s.\n", phrase.Plural64(r.Stacks, "wait"), render.ReachWords(r))
	}
}

// reachOfReleases is a line of a screen: where the others end is left to the whole report.
func (t *text) reachOfReleases() {
	if r := t.r.Released; r != nil && r.Unwound > 0 {
		share := func(n int64) float64 { return 100 * float64(n) / float64(r.Stacks) }
		t.f("Releases: of %s, %.1f %% reach application code, %.1f %% the root.\n", phrase.Plural64(r.Stacks, "stack"), share(r.Application), share(r.Root))
	}
}
