package futex_test

import (
	"slices"
	"testing"
)

// TestNoProof: processes that use a futex at the same address, as after a fork, stay two
// if it is not proven that one woke the other's thread. The order of wakeups is no
// proof, nor is a wakeup the only one if another was under way when the wait began.
func TestNoProof(t *testing.T) {
	for name, trace := range map[string]string{
		"given by their order": `
			11 0 100 ` + waitCall + `
			21 1 110 ` + waitCall + `
			22 2 200 ` + wakeCall + `
			22 2 210 sys_futex -> 0x1
			12 3 300 ` + wakeCall + `
			12 3 310 sys_futex -> 0x1
			21 1 320 sys_futex -> 0x0
			11 0 330 sys_futex -> 0x0`,
		"under way": `
			22 2 100 ` + wakeCall + `
			21 1 110 ` + waitCall + `
			11 0 120 ` + waitCall + `
			22 2 130 sys_futex -> 0x1
			12 3 200 ` + wakeCall + `
			12 3 210 sys_futex -> 0x1
			21 1 320 sys_futex -> 0x0
			11 0 330 sys_futex -> 0x0`,
	} {
		for _, l := range reportOf(t, trace).Locks {
			if l.Waits != 1 || !slices.Equal(l.Process.TIDs, []int32{l.Waiters[0].TID}) {
				t.Errorf("%s: who waits as %d is of a process with %d", name, l.Waiters[0].TID, l.Process.TIDs)
			}
		}
	}
}
