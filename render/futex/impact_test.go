package futex_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/render/futex/impact"
	"ustack/tracefs"
)

// impactTrace is of threads 10, which holds a lock from 3 to 8 ms, and 11, which waits
// for it from 4 ms, and has a sleep. Which process they are of shows late.
const impactTrace = `          <idle>-0       [000] d..2. 1.000000: sched_switch: prev_comm=swapper prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=prog next_pid=10 next_prio=120
            prog-11      [001] ..... 1.004000: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
            prog-11      [001] d..2. 1.004000: sched_switch: prev_comm=prog prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
            prog-10      [000] ..... 1.005000: tracing_mark_write: request 1
            prog-10      [000] ..... 1.008000: sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
            prog-10      [000] d..2. 1.008000: sched_waking: comm=prog pid=11 prio=120 target_cpu=001
            prog-10      [000] ..... 1.008001: sys_futex -> 0x1
            prog-10      [000] d..2. 1.008500: sched_switch: prev_comm=prog prev_pid=10 prev_prio=120 prev_state=X ==> next_comm=swapper next_pid=0 next_prio=120
          <idle>-0       [001] d..2. 1.009000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=prog next_pid=11 next_prio=120
            prog-11      [001] ..... 1.009000: sys_futex -> 0x0
            prog-11      [001] ..... 1.012000: sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
            prog-11      [001] ..... 1.012000: sys_futex -> 0x0
            prog-11      [001] d..2. 1.012000: sched_switch: prev_comm=prog prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
          <idle>-0       [001] d.h2. 1.019000: sched_waking: comm=prog pid=11 prio=120 target_cpu=001
          <idle>-0       [001] d..2. 1.020000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=prog next_pid=11 next_prio=120
            prog-11      [001] d..2. 1.021000: sched_switch: prev_comm=prog prev_pid=11 prev_prio=120 prev_state=X ==> next_comm=swapper/1 next_pid=0 next_prio=120
`

// impactOf analyses a trace with what its report is asked for.
func impactOf(t *testing.T, v futex.ImpactView, text string) *futex.Impact {
	t.Helper()
	v.On = true
	a := analyseText(t, futex.Options{Impact: v}, text)
	a.Report(futex.View{})
	return a.Impact()
}

// TestImpact: the path goes from the waiter to its waker, and each part of it is what it
// was.
func TestImpact(t *testing.T) {
	const ms = tracefs.Time(1e6)
	for _, c := range []struct {
		from    string
		running tracefs.Time
		lock    tracefs.Time
	}{{"1.000000", 12 * ms, 7 * ms}, {"request", 7 * ms, 6 * ms}} {
		i := impactOf(t, futex.ImpactView{From: c.from, WhatIf: []impact.Change{{Lock: "0x1000", Halve: true}}}, impactTrace)
		if i.Err != nil {
			t.Fatal(i.Err)
		}
		p := i.Path
		if p.Running != c.running || p.Runnable != 2*ms || p.Blocked != 7*ms || p.Unknown != 0 || p.Last != 11 {
			t.Errorf("%s: %+v", c.from, p)
		}
		if len(i.Locks) != 1 || i.Locks[0].Lock.Address != 0x1000 || i.Locks[0].Time != c.lock {
			t.Errorf("%s: %+v, want %d", c.from, i.Locks, c.lock)
		}
		if w := i.Prediction; w == nil || c.from[0] == '1' && w.Time >= w.Recorded || // the hold began before the other place
			w.Low > w.Time || w.High < w.Time {
			t.Errorf("%s: %+v", c.from, w)
		}
	}
	if i := impactOf(t, futex.ImpactView{WhatIf: []impact.Change{{Lock: "other", Halve: true}}}, impactTrace); i.Err == nil || !strings.Contains(fmt.Sprint(i.Err), "other") {
		t.Errorf("%v: there is no such lock", i.Err)
	}
}

// TestImpactJoins: a lock is before what waits for the end of a thread, which is all of the
// run time.
func TestImpactJoins(t *testing.T) {
	const join = `            main-9       [002] ..... 1.000100: sys_futex(uaddr: 0x7990, op: 0x109, val: 0xb, utime: 0, uaddr2: 0, val3: 0xffffffff)
            main-9       [002] d..2. 1.000200: sched_switch: prev_comm=main prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/2 next_pid=0 next_prio=120
`
	const joined = `            prog-11      [001] d..2. 1.020900: sched_waking: comm=main pid=9 prio=120 target_cpu=002
          <idle>-0       [002] d..2. 1.020950: sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=main next_pid=9 next_prio=120
            main-9       [002] ..... 1.020960: sys_futex -> 0x0
            prog-11      [001] d..2. 1.021000`
	first, rest, _ := strings.Cut(impactTrace, "\n")
	text := first + "\n" + join + strings.Replace(rest, "            prog-11      [001] d..2. 1.021000", joined, 1)
	i := impactOf(t, futex.ImpactView{}, text)
	if i.Err != nil || len(i.Locks) != 2 || i.Locks[0].Lock.Address != 0x1000 || i.Locks[1].Lock.Kind != futex.Join || i.Locks[1].Time <= i.Locks[0].Time {
		t.Fatalf("%v: %+v", i.Err, i.Locks)
	}
}
