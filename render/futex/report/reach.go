package report

import (
	"ustack/render"
	"ustack/render/phrase"
)

// reach says how complete the stacks of waits are, and those of releases if any was unwound.
func (t *text) reach() {
	if r := t.r.Reach; r != nil {
		t.f("Stacks: of %s, %s.\n", phrase.Plural64(r.Stacks, "wait"), render.ReachWords(r))
	}
	if r := t.r.Released; r != nil && r.Unwound > 0 {
		t.f("Releases: of %s, %s.\n", phrase.Plural64(r.Stacks, "stack"), render.ReachWords(r))
	}
}
