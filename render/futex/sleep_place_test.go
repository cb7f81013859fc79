package futex_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// sleeper writes the trace of a thread that waits for a lock whose owner sleeps meanwhile.
type sleeper struct {
	text strings.Builder
	now  int // in microseconds
}

func (s *sleeper) line(tid int, text string) {
	s.now++
	comm := fmt.Sprintf("t%d", tid)
	if tid == 0 {
		comm = "<idle>"
	}
	fmt.Fprintf(&s.text, "%16s-%-7d [000] d.... %5d.%06d: %s\n", comm, tid, 1+s.now/1e6, s.now%1e6, text)
}

// sleeps has the owner sleep for a time in a state, at a place.
func (s *sleeper) sleeps(state string, us int, place ...int) {
	s.line(11, "sched_switch: prev_comm=t11 prev_pid=11 prev_prio=120 prev_state="+state+" ==> next_comm=t12 next_pid=12 next_prio=120")
	if len(place) > 0 {
		s.line(11, "<user stack trace>")
	}
	for _, at := range place {
		fmt.Fprintf(&s.text, " =>  <%016x> : path=/bin/p build_id={0x1,0x2,0x3,0x4,0x5}\n", at)
	}
	s.now += us
	s.line(12, "sched_waking: comm=t11 pid=11 prio=120 target_cpu=000")
	s.line(12, "sched_switch: prev_comm=t12 prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=t11 next_pid=11 next_prio=120")
}

// TestSleepPlaces: a sleep in a call that the trace does not have is of the place where the
// thread left its CPU, which is of the innermost three frames.
func TestSleepPlaces(t *testing.T) {
	var s sleeper
	const lock = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
	const unlock = "sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)"
	// Switches that fit together come first.
	for range 20 {
		s.sleeps("S", 10)
	}
	s.line(11, lock)
	s.line(11, "sched_switch: prev_comm=t11 prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=t12 next_pid=12 next_prio=120")
	s.line(12, unlock)
	s.line(12, "sched_waking: comm=t11 pid=11 prio=120 target_cpu=000")
	s.line(12, "sys_futex -> 0x1")
	s.line(12, "sched_switch: prev_comm=t12 prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=t11 next_pid=11 next_prio=120")
	s.line(11, "sys_futex -> 0x0")
	s.now += 100
	s.line(11, "sched_switch: prev_comm=t11 prev_pid=11 prev_prio=120 prev_state=R ==> next_comm=t10 next_pid=10 next_prio=120")
	s.line(10, lock)
	s.line(10, "sched_switch: prev_comm=t10 prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=t11 next_pid=11 next_prio=120")
	s.sleeps("S", 1000, 1, 2, 3, 4)
	s.sleeps("S", 2000, 1, 2, 3, 5) // the same
	s.sleeps("S", 400, 1, 2, 4)
	s.sleeps("D", 200, 1, 2, 3)
	s.sleeps("S", 100)
	s.line(11, unlock)
	s.line(11, "sys_futex -> 0x1")
	s.line(10, "sys_futex -> 0x0")

	r := analyseText(t, futex.Options{}, s.text.String()).Report(futex.View{})
	if len(r.Locks) != 1 || r.Locks[0].Split == nil {
		t.Fatalf("%d locks", len(r.Locks))
	}
	var got []string
	for _, on := range r.Locks[0].Split.On {
		at := "nowhere"
		if on.At != nil {
			at = fmt.Sprint(on.At.Frames[0].Offset, on.At.Frames[1].Offset, on.At.Frames[2].Offset)
		}
		got = append(got, fmt.Sprintf("%s at %s %d", on.What, at, on.Time/tracefs.Time(100e3)))
	}
	want := []string{"unknown call at 1 2 3 30", "unknown call at 1 2 4 4", "I/O (state D) at 1 2 3 2", "unknown call at nowhere 1"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("blocked on %q, want %q", got, want)
	}
}

// TestSleepBeforeWait: an owner that took the lock without a call, and slept before others
// waited, has a place, too.
func TestSleepBeforeWait(t *testing.T) {
	var s sleeper
	s.line(11, "task_newtask: pid=10 comm=t10 clone_flags=3d0f00 oom_score_adj=0")
	for range 20 { // that fit together come first
		s.sleeps("S", 10)
		s.line(11, "sched_switch: prev_comm=t11 prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=t10 next_pid=10 next_prio=120")
		s.line(10, "sched_waking: comm=t11 pid=11 prio=120 target_cpu=000")
		s.line(10, "sched_switch: prev_comm=t10 prev_pid=10 prev_prio=120 prev_state=R ==> next_comm=t11 next_pid=11 next_prio=120")
	}
	s.line(11, "sched_switch: prev_comm=t11 prev_pid=11 prev_prio=120 prev_state=D ==> next_comm=t10 next_pid=10 next_prio=120")
	s.line(11, "<user stack trace>")
	for _, at := range []int{1, 2, 3} {
		fmt.Fprintf(&s.text, " =>  <%016x> : path=/bin/p build_id={0x1,0x2,0x3,0x4,0x5}\n", at)
	}
	s.line(10, "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)")
	s.line(10, "sched_switch: prev_comm=t10 prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120")
	s.now += 1000
	s.line(0, "sched_waking: comm=t11 pid=11 prio=120 target_cpu=000")
	s.line(0, "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=t11 next_pid=11 next_prio=120")
	s.now += 100
	s.line(11, "sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)")
	s.line(11, "sched_waking: comm=t10 pid=10 prio=120 target_cpu=000")
	s.line(11, "sys_futex -> 0x1")
	s.line(11, "sched_switch: prev_comm=t11 prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=t10 next_pid=10 next_prio=120")
	s.line(10, "sys_futex -> 0x0")

	r := analyseText(t, futex.Options{}, s.text.String()).Report(futex.View{})
	if len(r.Locks) != 1 || r.Locks[0].Split == nil {
		t.Fatalf("%d locks", len(r.Locks))
	}
	on := r.Locks[0].Split.On
	if len(on) != 1 || on[0].What != futex.BlockedIO || on[0].At == nil || on[0].At.Frames[0].Offset != 1 {
		t.Errorf("%+v", r.Locks[0].Split)
	}
}
