//go:build !device

package live

import "testing"

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
