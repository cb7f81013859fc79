package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
)

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

// TestNoOwner: a thread that got a lock by waiting may have released it unseen, if
// the word need not say that threads wait; and a futex that is not a mutex has no
// owner.
func TestNoOwner(t *testing.T) {
	const (
		musl   = "sys_futex(uaddr: 0x1000, op: 0x80, val: 0x80000010, utime: 0, uaddr2: 0, val3: 0)"
		lockPI = "sys_futex(uaddr: 0x1000, op: 0x86, val: 0, utime: 0, uaddr2: 0, val3: 0)"
		count  = "sys_futex(uaddr: 0x1000, op: 0x80, val: 0x7, utime: 0, uaddr2: 0, val3: 0)"
		exit   = "sched_process_exit: comm=t10 pid=10 prio=120"
	)
	wake := `
		11/9 1 300 ` + wakeCall + `
		11/9 1 310 sys_futex -> 0x1`
	for name, c := range map[string]struct{ first, wake, second string }{
		"musl":         {musl, wake, musl},
		"PI, at once":  {lockPI, "", lockPI},
		"an int of it": {waitCall, wake, count},
	} {
		r := reportOf(t, `
			10/9 0 100 `+c.first+c.wake+`
			10/9 0 350 sys_futex -> 0x0
			10/9 0 360 `+exit+`
			12/9 0 900 `+c.second+`
			11/9 1 950 sys_close(fd: 0)`)
		if len(r.Blocked) != 1 || r.Blocked[0].Owner != 0 || r.Verdict.LockUp() {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
	}
	r := reportOf(t, `
		10/9 0 100 `+waitCall+wake+`
		10/9 0 350 sys_futex -> 0x0
		10/9 0 360 `+exit+`
		12/9 0 900 `+waitCall+`
		11/9 1 950 sys_close(fd: 0)`)
	if len(r.Blocked) != 1 || r.Blocked[0].Owner != 10 || !r.Verdict.LockUp() {
		t.Errorf("a mutex of glibc: %+v", r.Verdict)
	}
}

// TestNotWoken: a waiter whose time is up was not the one that was woken, though it
// came first.
func TestNotWoken(t *testing.T) {
	const wait = "sys_futex(uaddr: 0x1000, op: 0x89, val: 0, utime: 0x1, uaddr2: 0, val3: 0)"
	r := reportOf(t, `
		10/10 0 100 `+wait+`
		12/10 0 110 `+wait+`
		11/10 1 5000 `+wakeCall+`
		11/10 1 5010 sys_futex -> 0x1
		10/10 0 5015 `+timedOut+`
		12/10 0 5031 sys_futex -> 0x0`)
	if len(r.Signals) != 1 || len(r.Signals[0].Flows) != 2 {
		t.Fatalf("%d futexes", len(r.Signals))
	}
	for _, f := range r.Signals[0].Flows {
		none := r.Signals[0].Wakers[f.Wake].None
		if woken := f.Time == 4_921_000; woken == (none == "no release seen") {
			t.Errorf("waited for %d: %q", f.Time, none)
		}
	}
}

// TestRequeuePI: a thread that waits to be moved to a PI mutex waits for a signal.
func TestRequeuePI(t *testing.T) {
	r := reportOf(t, `
		10/10 0 100 sys_futex(uaddr: 0x1000, op: 0x8b, val: 5, utime: 0, uaddr2: 0x2000, val3: 0)
		11/10 1 4000 sys_futex(uaddr: 0x1000, op: 0x8c, val: 0, utime: 0x1, uaddr2: 0x2000, val3: 0x5)
		11/10 1 4010 sys_futex -> 0x1
		11/10 1 5000 sys_futex(uaddr: 0x2000, op: 0x87, val: 0, utime: 0, uaddr2: 0, val3: 0)
		11/10 1 5010 sys_futex -> 0x0
		10/10 0 5100 sys_futex -> 0x0`)
	want := []string{
		"condvar 0x1000 10 [0 0 0 0 1 0 0 0] 3900+0 by 10",
		"pi-mutex 0x2000 10 [1 0 0 0 0 0 0 0] 1100+0 by 10",
	}
	if got := rows(r); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestRequeuePIFirst: FUTEX_CMP_REQUEUE_PI has to be asked to wake one waiter, and moves
// that one too if the mutex is held.
func TestRequeuePIFirst(t *testing.T) {
	const (
		wait    = "sys_futex(uaddr: 0x1000, op: 0x8b, val: 5, utime: 0, uaddr2: 0x2000, val3: 0)"
		requeue = "sys_futex(uaddr: 0x1000, op: 0x8c, val: 0x1, utime: 0x7fffffff, uaddr2: 0x2000, val3: 0x5)"
		unlock  = "sys_futex(uaddr: 0x2000, op: 0x87, val: 0, utime: 0, uaddr2: 0, val3: 0)"
	)
	moved := `
		10/9 0 100 ` + wait + `
		12/9 0 200 ` + wait + `
		11/9 1 4000 ` + requeue + `%s
		11/9 1 4010 sys_futex -> 0x2
		11/9 1 5000 ` + unlock + `
		11/9 1 5010 sys_futex -> 0x0
		10/9 0 5100 sys_futex -> 0x0
		10/9 0 8000 ` + unlock + `
		10/9 0 8010 sys_futex -> 0x0
		12/9 0 8100 sys_futex -> 0x0`
	r := reportOf(t, fmt.Sprintf(moved, ""))
	want := []string{
		"condvar 0x1000 9 [0 0 0 0 2 0 0 0] 7700+0 by 10 12",
		"pi-mutex 0x2000 9 [2 0 0 0 0 0 0 0] 5200+0 by 10 12",
	}
	if got := rows(r); !slices.Equal(got, want) {
		t.Errorf("moved: %q", got)
	}
	if len(r.Longest) != 2 || r.Longest[0].TID != 12 || r.Longest[0].Waker != 10 || r.Longest[0].Holder.TID != 10 {
		t.Errorf("moved: %+v", r.Longest)
	}
	r = reportOf(t, fmt.Sprintf(moved, `
		11/9 1 4005 sched_waking: comm=t10 pid=10 prio=120 target_cpu=000`))
	want = []string{
		"condvar 0x1000 9 [1 0 0 0 1 0 0 0] 8800+0 by 10 12",
		"pi-mutex 0x2000 9 [1 0 0 0 0 0 0 0] 4100+0 by 12",
	}
	if got := rows(r); !slices.Equal(got, want) {
		t.Errorf("woken: %q", got)
	}
}

// TestHolderOfMutex: what proves to be no mutex in the end has no sure holder.
func TestHolderOfMutex(t *testing.T) {
	woken := `
		11/10 1 5010 sys_futex -> 0x1
		10/10 0 5030 sys_futex -> 0x0`
	wake := "\n11/10 1 5000 " + wakeCall + woken
	wakeAll := "\n11/10 1 5000 sys_futex(uaddr: 0x1000, op: 0x81, val: 0x7fffffff, utime: 0, uaddr2: 0, val3: 0)" + woken
	for name, c := range map[string]struct {
		trace string
		sure  bool
	}{
		"mutex":          {"10/10 0 100 " + waitCall + wake, true},
		"rwlock":         {"10/10 0 100 sys_futex(uaddr: 0x1000, op: 0x189, val: 2, utime: 0, uaddr2: 0, val3: 0)" + wakeAll, false},
		"another number": {"10/10 0 100 " + waitCall + wake + "\n10/10 0 6000 sys_futex(uaddr: 0x1000, op: 0x80, val: 7, utime: 0, uaddr2: 0, val3: 0)", false},
	} {
		r := reportOf(t, c.trace)
		if len(r.Longest) != 1 || r.Longest[0].Holder.Sure != c.sure {
			t.Errorf("%s: %+v", name, r.Longest)
		}
	}
}

// TestJoinNamespace: the number of a thread in a container can be that of a thread
// of another process outside, which has nothing to do with it.
func TestJoinNamespace(t *testing.T) {
	const join = "sys_futex(uaddr: 0x5000, op: 0x109, val: 0x7, utime: 0, uaddr2: 0, val3: 0xffffffff)"
	for tgid, names := range map[string]bool{"7": false, "1000": true} {
		r := reportOf(t, `
			7/`+tgid+` 0 100 `+wakeCall+`
			7/`+tgid+` 0 101 sys_futex -> 0x0
			1000/1000 0 200 `+join+`
			7/`+tgid+` 0 250 sys_pause()
			7/`+tgid+` 0 260 sched_switch: prev_comm=t7 prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=s next_pid=0 next_prio=120`)
		of7 := func(f futex.Fact) bool { return f.Task == futex.Task{TID: 7, Comm: "t7"} }
		if v := r.Verdict; v.Kind != futex.ThreadExit || slices.ContainsFunc(v.Proof, of7) != names {
			t.Errorf("process %s: %+v", tgid, v)
		}
	}
}

// TestMean: a part of a wait whose end is not known is in the sum, not in the mean.
func TestMean(t *testing.T) {
	r := reportOf(t, `
		10/10 0 100 sys_futex(uaddr: 0x1000, op: 0x80, val: 0, utime: 0x1, uaddr2: 0, val3: 0)
		10/10 0 600000 sys_futex -> 0xfffffffffffffdfc
		12/10 1 600120 sys_futex(uaddr: 0x1000, op: 0x80, val: 0, utime: 0, uaddr2: 0, val3: 0)
		11/10 1 600200 `+wakeCall+`
		11/10 1 600210 sys_futex -> 0x1
		12/10 1 600220 sys_futex -> 0x0
		10/10 0 600230 sys_restart_syscall()
		10/10 0 600300 sys_close(fd: 0)`)
	if len(r.Signals) != 1 {
		t.Fatalf("%d futexes", len(r.Signals))
	}
	if l := r.Signals[0]; l.Slept != 1 || l.Mean != 100_000 || l.Max != 100_000 || l.Time != 600_000_000 {
		t.Errorf("%d waits, mean %d, max %d, in all %d", l.Slept, l.Mean, l.Max, l.Time)
	}
}

// TestFoldedShared: a futex shared by processes that has become one of the others is
// at no address any more.
func TestFoldedShared(t *testing.T) {
	call := func(addr, op, val string) string {
		return "sys_futex(uaddr: " + addr + ", op: " + op + ", val: " + val + ", utime: 0, uaddr2: 0, val3: 0)"
	}
	const a, b = "0xa000", "0xb000"
	var text strings.Builder
	at := 100
	add := func(who, body string) {
		at += 100
		fmt.Fprintf(&text, "%s 0 %d %s\n", who, at, body)
	}
	for _, addr := range []string{a, b} { // one futex in two processes
		for _, who := range [][2]string{{"10/10", "20/20"}, {"20/20", "10/10"}} {
			add(who[0], call(addr, "0x0", "2"))
			add(who[1], call(addr, "0x1", "1"))
			add(who[1], "sys_futex -> 0x1")
			add(who[0], "sys_futex -> 0x0")
		}
	}
	for range 600 { // proven by now
		add("40/40", "sys_close(fd: 0)")
	}
	for i := range 40 { // they become others
		add("50/50", call(fmt.Sprintf("%#x", 0x100000+16*i), "0x80", "2"))
		at += 10_000
		add("50/50", timedOut)
	}
	for _, who := range []string{"10/10", "20/20"} { // remembered as one of the others
		add(who, call(a, "0x1", "1"))
		add(who, "sys_futex -> 0x0")
	}
	add("30/30", call(a, "0x0", "2"))
	for _, who := range []string{"10/10", "20/20"} {
		add(who, call(b, "0x1", "1"))
		add(who, "sys_futex -> 0x1")
	}
	add("30/30", "sys_futex -> 0x0")
	r := analyseText(t, futex.Options{Locks: 8}, script(text.String())).Report(futex.View{})
	i := slices.IndexFunc(r.Locks, func(l *futex.Lock) bool { return l.Address == 0xa000 })
	if i < 0 || len(r.Locks[i].WakerTIDs) > 0 {
		t.Errorf("found at %d, %+v", i, r.Locks)
	}
}

// TestBoundsForgotten: what loss hides of threads that are forgotten, even if they had
// ended, is in no bound.
func TestBoundsForgotten(t *testing.T) {
	text := `
		10/10 0 100 ` + waitCall + `
		10/10 0 350 ` + timedOut + `
		LOST
		11/10 0 900000 ` + waitCall + `
		11/10 0 900010 ` + timedOut + `
		10/10 0 900100 sched_process_exit: comm=t10 pid=10 prio=120
		12/10 0 900300 ` + waitCall + `
		12/10 0 900310 ` + timedOut
	for lost, bounded := range map[string]bool{"": true, "CPU:0 [LOST 2 EVENTS]": false} {
		r := analyseText(t, futex.Options{Threads: 2}, script(strings.Replace(text, "LOST", lost, 1))).Report(futex.View{})
		if r.Loss.Forgotten > 0 || r.Loss.Bounded != bounded {
			t.Errorf("%q: %+v", lost, r.Loss)
		}
	}
}

// TestOthersFiltered: what other processes waited for is not in the sums of one.
func TestOthersFiltered(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "%d/%d 0 %d sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0x1, uaddr2: 0, val3: 0)\n", 10+i%2, 10+i%2, 20*i, 0x1000+16*i)
		fmt.Fprintf(&b, "%d/%d 0 %d %s\n", 10+i%2, 10+i%2, 20*i+10, timedOut)
	}
	a := analyseText(t, futex.Options{Locks: 16}, script(b.String()))
	r := a.Report(futex.View{PIDs: []int32{10}})
	if n := int64(len(r.Locks)); n == 0 || r.All.Waits != n || r.OtherLocks != nil || !strings.Contains(strings.Join(r.Notes, "\n"), "left out") {
		t.Errorf("%d locks, %+v, notes %q", n, r.All, r.Notes)
	}
	if r = a.Report(futex.View{Comms: []string{"absent"}}); r.All.Waits != 0 {
		t.Errorf("absent threads waited %d times", r.All.Waits)
	}
}

// TestWakeOp: what FUTEX_WAKE_OP returns counts the threads that it has woken at its
// second futex, too. No more than it was asked for are of the first one, and who it
// was is not sure.
func TestWakeOp(t *testing.T) {
	const wakeOp = "sys_futex(uaddr: 0x1000, op: 0x85, val: 1, utime: 0x1, uaddr2: 0x2000, val3: 0x4000001)"
	r := reportOf(t, `
		10/9 0 100 `+waitCall+`
		11/9 0 110 `+waitCall+`
		12/9 1 300 `+wakeOp+`
		12/9 1 310 sys_futex -> 0x2
		10/9 0 320 sys_futex -> 0x0
		13/9 1 800 `+wakeCall+`
		13/9 1 810 sys_futex -> 0x1
		11/9 0 900 sys_futex -> 0x0`)
	if len(r.Locks) != 1 {
		t.Fatalf("%d locks", len(r.Locks))
	}
	l := r.Locks[0]
	let := make(map[int32]int64)
	for _, w := range l.WakerTIDs {
		let[w.TID] = w.Count
	}
	if l.Results[futex.Woken] != 2 || let[12] != 1 || let[13] != 1 {
		t.Errorf("results %v, released by %v", l.Results, let)
	}
}

// TestHolderBrokenOff: who held a lock while a signal handler ran has not made the
// thread wait, and what was lost meanwhile is no part of what is looked at.
func TestHolderBrokenOff(t *testing.T) {
	r := reportOf(t, `
		10/9 0 1000 `+waitCall+`
		10/9 0 1100 sys_futex -> 0xfffffffffffffe00
		12/9 1 50000 sys_getpid()
		CPU:1 [LOST 5 EVENTS]
		12/9 1 51000 sys_getpid -> 0x1
		10/9 0 90000 `+waitCall+`
		11/9 1 90300 `+wakeCall+`
		11/9 1 90310 sys_futex -> 0x1
		10/9 0 90400 sys_futex -> 0x0`)
	if len(r.Longest) != 1 {
		t.Fatalf("%d waits", len(r.Longest))
	}
	w := r.Longest[0]
	want := []futex.Segment{{TID: 11, From: 90_000_000, To: 90_300_000}}
	if w.Time != 500_000 || w.Holder.TID != 11 || w.Holder.Sure || w.Holder.Share > 0.8 || !slices.Equal(w.Segments, want) {
		t.Errorf("%+v", w)
	}
}

// TestBarging: while who was woken does not run yet, others can take the lock and let
// it go without a system call. Who lets it go next held it, but who knows since when.
func TestBarging(t *testing.T) {
	for ran, sure := range map[int]bool{250: true, 900: false} {
		r := reportOf(t, fmt.Sprintf(`
			12/9 1 50 %s
			10/9 0 100 %[1]s
			11/9 2 200 %s
			11/9 2 210 sys_futex -> 0x1
			12/9 1 %d sys_futex -> 0x0
			12/9 1 %d %[1]s
			14/9 2 1000 %[2]s
			14/9 2 1010 sys_futex -> 0x1
			10/9 0 1050 sys_futex -> 0x0`, waitCall, wakeCall, ran, ran+5))
		i := slices.IndexFunc(r.Longest, func(w *futex.Wait) bool { return w.TID == 10 })
		if i < 0 || r.Longest[i].Holder.TID != 14 || r.Longest[i].Holder.Sure != sure {
			t.Errorf("woken thread ran at %d: %+v", ran, r.Longest[i].Holder)
		}
	}
}

// TestGivenBack: when a waiter turns out not to have been woken by a call, no thread was
// that began to wait after the call had returned.
func TestGivenBack(t *testing.T) {
	r := reportOf(t, `
		10/9 0 100 `+waitCall+`
		11/9 1 200 sys_futex(uaddr: 0x1000, op: 0x81, val: 2, utime: 0, uaddr2: 0, val3: 0)
		11/9 1 210 sys_futex -> 0x2
		12/9 2 300 `+waitCall+`
		10/9 0 400 `+timedOut+`
		12/9 2 500 sys_futex -> 0x0`)
	if len(r.Locks) != 1 || len(r.Locks[0].WakerTIDs) > 0 {
		t.Fatalf("%d locks, released by %+v", len(r.Locks), r.Locks[0].WakerTIDs)
	}
}

// TestGivenBackTooMany: a call that was given more waiters than it has woken is owed none
// when one of them turns out not to have been woken by it.
func TestGivenBackTooMany(t *testing.T) {
	r := reportOf(t, `
		10/9 0 100 `+waitCall+`
		12/9 0 110 `+waitCall+`
		13/9 0 120 `+waitCall+`
		11/9 1 200 sys_futex(uaddr: 0x1000, op: 0x81, val: 2, utime: 0, uaddr2: 0, val3: 0)
		11/9 1 201 sched_waking: comm=x pid=10 prio=120 target_cpu=000
		11/9 1 202 sched_waking: comm=x pid=12 prio=120 target_cpu=000
		11/9 1 210 sys_futex -> 0x1
		10/9 0 300 `+timedOut+`
		14/9 1 400 sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
		14/9 1 410 sys_futex -> 0x1
		13/9 0 500 sys_futex -> 0x0`)
	if len(r.Locks) != 1 || len(r.Locks[0].WakerTIDs) != 1 || r.Locks[0].WakerTIDs[0].TID != 14 {
		t.Fatalf("%d locks, released by %+v", len(r.Locks), r.Locks[0].WakerTIDs)
	}
}
