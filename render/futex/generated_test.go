package futex_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs/capturetest"
)

// generated makes a trace of a few threads that use a few futexes in every way, some of
// which no kernel allows.
func generated(rnd *rand.Rand, events int) string {
	var b strings.Builder
	tid := func() int { return 10 + rnd.IntN(6) }
	addr := func() int { return 0x1000 + 4*rnd.IntN(5) }
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	call := func(op string, val, more, second int) string {
		return fmt.Sprintf("sys_futex(uaddr: %#x, op: %s, val: %#x, utime: %#x, uaddr2: %#x, val3: 0)", addr(), op, val, more, second)
	}
	for at := 100; at < 100+7*events; at += 1 + rnd.IntN(12) {
		who := tid()
		task := fmt.Sprint(who)
		if rnd.IntN(2) == 0 {
			task = fmt.Sprintf("%d/%d", who, 10+who%2)
		}
		var body string
		switch rnd.IntN(19) {
		case 0, 1, 2, 3:
			body = call(pick("0x80", "0x89", "0x0", "0x86", "0x8b"), rnd.IntN(4), rnd.IntN(2), addr())
		case 4, 5, 6:
			body = call(pick("0x81", "0x8a", "0x1", "0x87"), 1+rnd.IntN(2), 0, 0)
		case 7:
			body = call(pick("0x84", "0x83", "0x8c", "0x85"), rnd.IntN(3), rnd.IntN(3), addr())
		case 8, 9, 10, 11:
			body = "sys_futex -> " + pick("0x0", "0x1", "0x2", "0x3", "0xffffffffffffff92", "0xfffffffffffffff5", "0xfffffffffffffe00", "0xfffffffffffffdfc")
		case 12:
			body = pick("sys_restart_syscall()", "sys_close(fd: 0)", "sys_close -> 0x0")
		case 13, 14, 15, 16:
			body = fmt.Sprintf("sched_waking: comm=a pid=%d prio=120 target_cpu=000", tid())
		case 17:
			body = pick("sched_process_exit: comm=a pid=%[1]d prio=120", "sched_process_exec: filename=/bin/x pid=%[1]d old_pid=%[1]d",
				"task_newtask: pid=%d comm=a clone_flags=3d0f00 oom_score_adj=0",
				"sched_switch: prev_comm=a prev_pid=%[1]d prev_prio=120 prev_state=S ==> next_comm=s next_pid=0 next_prio=120")
			body = fmt.Sprintf(body, who)
		default:
			fmt.Fprintf(&b, "CPU:%d [LOST %d EVENTS]\n", rnd.IntN(3), 1+rnd.IntN(5))
			continue
		}
		fmt.Fprintf(&b, "%s %d %d %s\n", task, rnd.IntN(3), at+rnd.IntN(3), body)
	}
	return b.String()
}

// TestInvariantsGenerated checks what TestInvariants checks after every record of
// generated traces, with room for all and for hardly any of what is kept.
func TestInvariantsGenerated(t *testing.T) {
	seeds := uint64(150)
	if capturetest.Brief() {
		seeds = 30
	}
	for seed := range seeds {
		text := script(generated(rand.New(rand.NewPCG(seed, 1)), 300))
		for _, opt := range []futex.Options{{}, {Locks: 2, Threads: 3, Stacks: 1}, {Locks: 6, Calls: true}} {
			if r := analyseText(t, opt, text).Report(futex.View{}); r.All.Time < 0 {
				t.Errorf("seed %d: %+v", seed, r.All)
			}
			if t.Failed() {
				t.Fatalf("seed %d, %+v", seed, opt)
			}
		}
	}
}
