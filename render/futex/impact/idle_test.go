package impact

import "testing"

// TestMissingSwitch: kernels leave out switches from idle. A thread that wakes another is
// on a CPU all the same, so the path goes on there.
func TestMissingSwitch(t *testing.T) {
	for _, missing := range []bool{false, true} {
		l := NewLog(0)
		const main, worker, lock = 10, 11, 0
		l.Switch(100, 0, 0, 'R', main)
		l.Switch(100, 1, 0, 'R', worker)
		l.Waits(110, main, lock)
		l.Switch(120, 0, main, 'S', 0)
		l.Switch(200, 1, worker, 'S', 0)
		l.Waking(1000, 0, worker) // by a timer
		if !missing {
			l.Switch(1001, 1, 0, 'R', worker)
		}
		l.Waking(1100, worker, main)
		l.Switch(1101, 0, 0, 'R', main)
		l.Returns(1102, main, true)
		l.Switch(1200, 0, main, 'S', 0)
		p, err := Find(l, "", "", func(int32) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		if p.Jumps != 1 || p.Unknown != 0 || p.Blocked != 800 || len(p.Locks) != 1 || p.Locks[0].Lock != lock {
			t.Errorf("missing %v: %+v", missing, p)
		}
	}
}
