package futex_test

import (
	"strings"
	"testing"

	"ustack/render/futex"
)

// TestBlockedCalls: a call has a name where its thread has shown what its numbers mean,
// and where entries have returns.
func TestBlockedCalls(t *testing.T) {
	const learns = `
		11/10 1 10 sys_enter: NR 202 (1, 2)
		11/10 1 11 sys_futex(uaddr: 0x9000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
		11/10 1 12 sys_futex -> 0x0
		11/10 1 13 sys_exit: NR 202 = 0`
	const other = `
		11/10 1 10 sys_enter: NR 240 (1, 2)
		11/10 1 13 sys_exit: NR 240 = 0`
	const enters = `
		11/10 1 90 sys_enter: NR 75 (1, 2)`
	const returns = `
		11/10 1 2010 sys_exit: NR 75 = 0`
	for _, c := range []struct {
		name, before, enters, state string
		what                        futex.BlockedKind
		call                        string
	}{
		{"named", learns, enters, "S", futex.BlockedCall, "fdatasync"},
		{"in state D", learns, enters, "D", futex.BlockedCall, "fdatasync"},
		{"asleep", learns, strings.ReplaceAll(enters, "75", "230"), "S", futex.BlockedSleep, "clock_nanosleep"},
		{"no number of the table", learns, strings.ReplaceAll(enters, "75", "400"), "S", futex.BlockedElsewhere, ""},
		{"arm64", strings.ReplaceAll(learns, "202", "98"), strings.ReplaceAll(enters, "75", "83"), "D", futex.BlockedCall, "fdatasync"},
		{"32 bits", other, enters, "S", futex.BlockedElsewhere, ""},
		{"32 bits in state D", other, enters, "D", futex.BlockedIO, ""},
		{"without returns", strings.ReplaceAll(learns, "sys_exit", "x"), enters, "S", futex.BlockedElsewhere, ""},
		{"in no call", learns, "", "D", futex.BlockedOutside, ""},
		{"in no call that is known", "", "", "D", futex.BlockedIO, ""},
		{"only futex", "", "", "S", futex.BlockedElsewhere, ""},
	} {
		r := reportOf(t, `
		11/10 1 1 sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=R ==> next_comm=b next_pid=0 next_prio=120
		0 1 5 sched_switch: prev_comm=a prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=11 next_prio=120`+c.before+c.enters+`
		12/10 0 100 sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
		11/10 1 200 sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=`+c.state+` ==> next_comm=b next_pid=0 next_prio=120
		0 1 1200 sched_waking: comm=a pid=11 prio=120 target_cpu=001
		0 1 1300 sched_switch: prev_comm=a prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=11 next_prio=120`+returns+`
		11/10 1 2100 sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
		11/10 1 2110 sys_futex -> 0x1
		12/10 0 2200 sys_futex -> 0x0
		`)
		if len(r.Locks) != 1 {
			t.Fatalf("%s: %d locks", c.name, len(r.Locks))
		}
		s := r.Locks[0].Split
		if len(s.On) != 1 || s.On[0].What != c.what || s.On[0].Call != c.call {
			t.Errorf("%s: blocked on %+v", c.name, s.On)
		}
		if s.Ran != 900_000 || s.Runnable != 100_000 || s.Blocked != 1_000_000 || s.HandOver != 100_000 || s.Unknown != 0 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}
