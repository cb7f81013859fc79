package futex_test

import (
	"fmt"
	"regexp"
	"testing"

	"ustack/tracefs"
)

// starved is a trace in which thread 9, which has never called futex, releases a lock that
// thread 1 waits for, and is preempted before it wakes that one. Thread 2 takes the lock 300
// microseconds later, and its release wakes thread 1. Thread 9 runs again at a time, if that
// is not 0, and makes its call.
func starved(again int) string {
	const (
		out = "sched_switch: prev_comm=t%[1]d prev_pid=%[1]d prev_prio=120 prev_state=%[2]s ==> next_comm=swapper/0 next_pid=0 next_prio=120"
		in  = "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=t%[1]d next_pid=%[1]d next_prio=120"
	)
	switches := func(cpu, us int, form string, tid int, state string) string {
		who, body := tid, fmt.Sprintf(form, tid, state)
		if form == in {
			who, body = 0, fmt.Sprintf(form, tid)
		}
		return fmt.Sprintf("%d %d %d %s\n", who, cpu, us, body)
	}
	text := switches(0, 900, in, 1, "") + switches(1, 910, in, 2, "") + switches(2, 920, in, 3, "") + switches(3, 930, in, 9, "") +
		// Threads 1 to 3 have called futex before.
		"1 0 950 " + wakeOther + "\n1 0 951 sys_futex -> 0x0\n" +
		"3 2 955 " + waitCall + "\n" + switches(2, 956, out, 3, "S") + "1 0 960 " + wakeCall + "\n1 0 961 sys_futex -> 0x1\n" +
		switches(2, 965, in, 3, "") + "3 2 966 sys_futex -> 0x0\n3 2 970 " + wakeCall + "\n3 2 971 sys_futex -> 0x0\n2 1 972 " + wakeOther + "\n2 1 973 sys_futex -> 0x0\n" +
		"1 0 1000 " + waitCall + "\n" + switches(0, 1001, out, 1, "S") +
		switches(3, 1100, out, 9, "R") + // right after its release
		switches(1, 1300, out, 2, "S") + switches(1, 1310, in, 2, "") +
		"2 1 1700 " + wakeCall + "\n2 1 1702 sys_futex -> 0x1\n" +
		switches(0, 1705, in, 1, "") + "1 0 1706 sys_futex -> 0x0\n" +
		"1 0 1800 " + wakeCall + "\n1 0 1802 sys_futex -> 0x0\n"
	for us := 10_000; us < 400_000; us += 10_000 { // it is not heard for long
		text += fmt.Sprintf("2 1 %d %s\n2 1 %d sys_futex -> 0x0\n", us, wakeOther, us+1)
	}
	if again > 0 {
		text += switches(3, again, in, 9, "") + fmt.Sprintf("9 3 %d %s\n9 3 %d sys_futex -> 0x0\n", again+2, wakeCall, again+3)
	}
	text += fmt.Sprintf("2 1 500000 %s\n2 1 500001 sys_futex -> 0x0\n", wakeOther)
	return regexp.MustCompile(`(?m)^([1239]) `).ReplaceAllString(text, "$1/1 ")
}

const wakeOther = "sys_futex(uaddr: 0x9000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)"

// TestUnheard: a thread that has never called futex may have released a lock and not made its
// call. If it makes that, though no thread waits any more, it is unknown who owned the lock.
func TestUnheard(t *testing.T) {
	for _, again := range []int{20_000, 50_000, 90_000} {
		r := reportOf(t, starved(again))
		found := false
		for _, w := range r.Longest {
			if w.TID != 1 {
				continue
			}
			found = true
			for _, s := range w.Steps {
				if last := s.Owners[len(s.Owners)-1]; last.TID == 2 {
					t.Errorf("thread 9 runs at %d: thread 2 owned the lock from %d to %d: %+v", again, s.From, s.To, s)
				}
			}
			if w.Split != nil && w.Split.Unknown < 690*tracefs.Time(1000) {
				t.Errorf("thread 9 runs at %d: %+v", again, w.Split)
			}
		}
		if !found {
			t.Errorf("thread 9 runs at %d: no wait of thread 1: %+v", again, r.Longest)
		}
	}
}
