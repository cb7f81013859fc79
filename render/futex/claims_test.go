package futex_test

import "testing"

const timedOut = "sys_futex -> 0xffffffffffffff92"

// TestBoundsExec: what loss hides of a thread can have been waits before the
// process ran another program.
func TestBoundsExec(t *testing.T) {
	r := reportOf(t, `
		10/10 0 100 `+waitCall+`
		10/10 0 350 `+timedOut+`
		CPU:0 [LOST 2 EVENTS]
		10/10 0 900000 sys_close(fd: 0)
		10/10 0 900110 sched_process_exec: filename=/bin/x pid=10 old_pid=10
		10/10 0 900300 `+waitCall+`
		10/10 0 900500 `+timedOut)
	if len(r.Locks) != 2 || !r.Loss.Bounded {
		t.Fatalf("%d locks, bounds %v", len(r.Locks), r.Loss.Bounded)
	}
	for _, l := range r.Locks {
		if l.High < l.Time || l.High < 800_000_000 {
			t.Errorf("%#x: waited for %d, %d at most", l.Address, l.Time, l.High)
		}
	}
}
