//go:build !device

package live

import (
	"strings"
	"testing"

	"ustack/filemap/sideband"
	"ustack/filemap/space"
)

// TestBelow: a process is below another one also if those between have ended. A number that another
// process has by now does not count.
func TestBelow(t *testing.T) {
	const log = `# ustack side band 2 clock=mono
seen 1.000000000 10 10
seen 1.000000000 20 20
fork 2.000000000 10 30
fork 2.100000000 30 40
fork 2.200000000 20 50
fork 2.300000000 50 60
exit 2.400000000 30 30
exit 2.500000000 50 50
fork 2.600000000 10 50
until 3.000000000
`
	h, err := sideband.Load(space.New(), strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	b := &bandFollower{history: h}
	for pid, want := range map[int]bool{10: true, 30: true, 40: true, 50: true, 20: false, 60: false, 70: false} {
		if got := b.below(pid, []int{10}); got != want {
			t.Errorf("%d: %v", pid, got)
		}
	}
}

// TestOtherRightsWake: who is woken may use what the follower knows.
func TestOtherRightsWake(t *testing.T) {
	var b bandFollower
	var got []int
	b.wake = func() { got = b.takeRights() }
	b.otherRights([]int{7, 8})
	if len(got) != 2 {
		t.Errorf("%d", got)
	}
}
