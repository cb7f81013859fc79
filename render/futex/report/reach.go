package report

import (
	"fmt"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs/escape"
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

// briefReach returns that for a screen: what is cut off is whole sentences, from the last one on.
func briefReach(r *futex.Report) (lines []string) {
	if of := r.Reach; of != nil {
		lines = append(lines, fmt.Sprintf("Stacks: of %s, %s.", phrase.Plural64(of.Stacks, "wait"), briefShares(of)))
		if of.End != "" {
			lines = append(lines, "  Most of the others end in "+string(escape.Append(nil, []byte(of.End)))+".")
		}
	}
	if of := r.Released; of != nil && of.Unwound > 0 {
		lines = append(lines, fmt.Sprintf("Releases: of %s, %s.", phrase.Plural64(of.Stacks, "stack"), briefShares(of)))
	}
	return lines
}

func briefShares(r *resolve.Reach) string {
	share := func(n int64) float64 { return 100 * float64(n) / float64(r.Stacks) }
	if r.Unwound == 0 {
		return fmt.Sprintf("%.1f %% reach application code (frame pointers)", share(r.Application))
	}
	return fmt.Sprintf("%.1f %% reach application code, %.1f %% the root", share(r.Application), share(r.Root))
}
