package futex_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
)

// decoy is a trace in which a thread runs until the end that waited for the lock at 0x1000 for
// 0.9 ms before, and some threads waited for the one at 0x2000 for 0.5 ms each, until a timer.
func decoy(decoys int) string {
	var b strings.Builder
	line := func(tid, cpu, us int, format string, args ...any) {
		who := "0"
		if tid != 0 {
			who = fmt.Sprintf("%d/10", tid)
		}
		fmt.Fprintf(&b, "%s %d %d %s\n", who, cpu, us, fmt.Sprintf(format, args...))
	}
	on := func(tid, cpu, us int) { line(0, cpu, us, switchLine, 0, 120, "R", tid, 120) }
	off := func(tid, cpu, us int, state string) { line(tid, cpu, us, switchLine, tid, 120, state, 0, 120) }
	wait := func(tid, cpu, us, addr int) {
		on(tid, cpu, us)
		line(tid, cpu, us+1, "sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr)
		off(tid, cpu, us+2, "S")
	}
	wake := func(tid, cpu, us, addr, woken int) {
		line(tid, cpu, us, "sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", addr)
		line(tid, cpu, us+1, "sched_waking: comm=a pid=%d prio=120 target_cpu=000", woken)
		line(tid, cpu, us+2, "sys_futex -> 0x1")
	}
	on(10, 0, 90)
	on(24, 2, 90)
	wait(11, 1, 100, 0x1000)
	off(24, 2, 110, "S")
	for i := range decoys {
		wait(30+i, 3, 120+5*i, 0x2000)
	}
	line(0, 2, 620, "sched_waking: comm=a pid=24 prio=120 target_cpu=000")
	on(24, 2, 621)
	for i := range decoys { // each gets it, and gives it to the next one
		us := 630 + 20*i
		if i == 0 {
			wake(24, 2, us, 0x2000, 30)
			off(24, 2, us+3, "X")
		} else {
			wake(29+i, 3, us, 0x2000, 30+i)
			off(29+i, 3, us+3, "S")
		}
		on(30+i, 3, us+5)
		line(30+i, 3, us+6, "sys_futex -> 0x0")
	}
	off(29+decoys, 3, 900, "X")
	wake(10, 0, 1000, 0x1000, 11)
	on(11, 1, 1003)
	line(11, 1, 1004, "sys_futex -> 0x0")
	off(10, 0, 1010, "X")
	off(11, 1, 2000, "X")
	return script(b.String())
}

// TestOrder: a lock on the critical path is first although another one is waited for longer,
// where that is asked for and the path is known.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		decoys int
		order  bool
		view   futex.View
		lost   bool
		want   uint64
		path   bool
	}{
		"path":         {decoys: 4, order: true, view: futex.View{Sort: "auto"}, want: 0x1000, path: true},
		"by wait":      {decoys: 4, order: true, view: futex.View{Sort: "total"}, want: 0x2000},
		"of threads":   {decoys: 4, order: true, view: futex.View{Sort: "auto", Comms: []string{"t10", "t11", "t30"}}, want: 0x2000},
		"not kept":     {decoys: 4, view: futex.View{Sort: "auto"}, want: 0x2000},
		"loss":         {decoys: 4, order: true, view: futex.View{Sort: "auto"}, lost: true, want: 0x2000},
		"both, anyway": {decoys: 1, order: true, view: futex.View{Sort: "auto"}, want: 0x1000},
	} {
		text := decoy(c.decoys)
		if c.lost {
			text += "CPU:3 [LOST 3 EVENTS]\n" + script("0 3 2001 sched_switch: prev_comm=a prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=24 next_prio=120\n")
		}
		r := analyseText(t, futex.Options{Order: c.order}, text).Report(c.view)
		if len(r.Locks) != 2 || r.Locks[0].Address != c.want || r.Locks[0].Rank != 1 || (r.PathTime > 0) != c.path || (r.Loudest != nil) != c.path {
			t.Errorf("%s: %+v, path %d, %v", name, rows(r), r.PathTime, r.Loudest != nil)
			continue
		}
		if c.path && (r.Loudest != r.Locks[1] || r.Locks[0].OnPath < 880e3 || r.Locks[0].OnPath > 910e3 || r.Locks[1].OnPath != 0) {
			t.Errorf("%s: on the path %d and %d of %d", name, r.Locks[0].OnPath, r.Locks[1].OnPath, r.PathTime)
		}
	}
}
