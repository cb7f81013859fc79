package futex_test

import (
	"fmt"
	"testing"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/render/futex"
)

// entries have int $0x80 before offsets from 0x80 on.
type entries struct{}

func (entries) Here() bool { return true }

func (entries) Entry(_ *filemap.File, offset uint64) callsite.Entry {
	if offset >= 0x80 {
		return callsite.Compat
	}
	return callsite.Own
}

// TestBlockedNumbering: a call has the name of a 32-bit program's where it is made by int $0x80, and
// none where no file shows that.
func TestBlockedNumbering(t *testing.T) {
	const file = "> : path=/p build_id={0x1,0x2,0x3,0x4,0x5}"
	for _, c := range []struct {
		at   string
		nr   int
		what futex.BlockedKind
		call string
	}{
		{"0000000000000010" + file, 75, futex.BlockedCall, "fdatasync"},
		{"0000000000000080" + file, 75, futex.BlockedCall, "setrlimit"},
		{"0000000000000080" + file, 162, futex.BlockedSleep, "nanosleep"},
		{"0000000000000080" + file, 422, futex.BlockedCall, "futex_time64"},
		{"00007ffff0000000>", 162, futex.BlockedElsewhere, ""},
	} {
		text := script(fmt.Sprintf(`
			11/10 1 1 sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=R ==> next_comm=b next_pid=0 next_prio=120
			0 1 5 sched_switch: prev_comm=a prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=11 next_prio=120
			11/10 1 10 sys_enter: NR 202 (1, 2)
			11/10 1 11 sys_futex(uaddr: 0x9000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
			11/10 1 12 sys_futex -> 0x0
			11/10 1 13 sys_exit: NR 202 = 0
			11/10 1 90 sys_enter: NR %d (1, 2)
			12/10 0 100 sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
			11/10 1 200 sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=0 next_prio=120
			11/10 1 200 <user stack trace>`, c.nr)) + " =>  <" + c.at + "\n" + script(fmt.Sprintf(`
			0 1 1200 sched_waking: comm=a pid=11 prio=120 target_cpu=001
			0 1 1300 sched_switch: prev_comm=a prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=11 next_prio=120
			11/10 1 2010 sys_exit: NR %d = 0
			11/10 1 2100 sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
			11/10 1 2110 sys_futex -> 0x1
			12/10 0 2200 sys_futex -> 0x0
			`, c.nr))
		r := analyseText(t, futex.Options{Entries: entries{}}, text).Report(futex.View{})
		if len(r.Locks) != 1 || len(r.Locks[0].Split.On) != 1 {
			t.Fatalf("%s: %d locks", c.at, len(r.Locks))
		}
		if on := r.Locks[0].Split.On[0]; on.What != c.what || on.Call != c.call {
			t.Errorf("%s: call %d is %+v, want %q", c.at, c.nr, on, c.call)
		}
	}
}
