package sideband

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap/space"
)

// TestSavedStacks: however many raw stacks a log has, what is kept of them is bounded, and
// the last ones are.
func TestSavedStacks(t *testing.T) {
	const most, n = 100, 10_000
	var log strings.Builder
	log.WriteString(logHead + "mono\n")
	for i := range n {
		fmt.Fprintf(&log, "stack 1.%09d %d 401010\n", i, i%7+1)
	}
	p, err := newPlayer(space.NewOf(10), strings.NewReader(log.String()), most)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.To(space.Forever); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for tid := 1; tid <= 7; tid++ {
		kept += len(p.History.Stacks.Between(nil, tid, 0, space.Forever, n))
	}
	last := p.History.Stacks.Between(nil, (n-1)%7+1, 1e9+n-1, space.Forever, n)
	if kept > most || len(last) != 1 || p.History.Stacks.Counts().Kept != n {
		t.Errorf("%d stacks are kept, %d of the last one", kept, len(last))
	}
}
