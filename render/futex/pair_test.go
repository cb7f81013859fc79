package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// script makes the text of a trace: each line is "TID[/TGID] CPU MICROSECONDS
// body"; other lines stand as they are.
func script(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		var who, cpu string
		var us int
		n, _ := fmt.Sscan(line, &who, &cpu, &us)
		if n < 3 || strings.HasPrefix(who, "CPU:") {
			if line != "" {
				b.WriteString(line + "\n")
			}
			continue
		}
		body := strings.SplitN(line, " ", 4)[3]
		tid, tgid, _ := strings.Cut(who, "/")
		if tgid != "" {
			tgid = fmt.Sprintf("(%7s) ", tgid)
		}
		fmt.Fprintf(&b, "%16s-%-7s %s[%03s] ..... %5d.%06d: %s\n", "t"+tid, tid, tgid, cpu, us/1_000_000, us%1_000_000, body)
	}
	return b.String()
}

func reportOf(t *testing.T, lines string) *futex.Report {
	t.Helper()
	return analyseText(t, futex.Options{}, script(lines)).Report(futex.View{})
}

const (
	waitCall = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
	wakeCall = "sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)"
)

// rows describes the futexes of a report, in order.
func rows(r *futex.Report) []string {
	var out []string
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		var tids []string
		for _, w := range l.Waiters {
			tids = append(tids, fmt.Sprint(w.TID))
		}
		slices.Sort(tids)
		out = append(out, fmt.Sprintf("%s %#x %d %v %d+%d by %s", l.Kind, l.Address, l.Process.TGID, l.Results, l.Time/1000, l.OpenTime/1000, strings.Join(tids, " ")))
	}
	slices.Sort(out)
	return out
}

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		name, trace string
		want        []string
	}{
		{"woken", `
			10/10 0 100 ` + waitCall + `
			11/10 1 300 ` + wakeCall + `
			11/10 1 310 sys_futex -> 0x1
			10/10 0 350 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 10 [1 0 0 0 0 0 0 0] 250+0 by 10"}},
		{"the value had changed", `
			10/10 0 100 ` + waitCall + `
			10/10 0 350 sys_futex -> 0xfffffffffffffff5`,
			[]string{"mutex 0x1000 10 [0 1 0 0 0 0 0 0] 0+0 by "}},
		{"two processes, one address", `
			10/10 0 100 ` + waitCall + `
			20/20 1 100 ` + waitCall + `
			11/10 1 300 ` + wakeCall + `
			11/10 1 310 sys_futex -> 0x1
			21/20 1 400 ` + wakeCall + `
			21/20 1 410 sys_futex -> 0x1
			10/10 0 500 sys_futex -> 0x0
			20/20 0 500 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 10 [1 0 0 0 0 0 0 0] 400+0 by 10", "mutex 0x1000 20 [1 0 0 0 0 0 0 0] 400+0 by 20"}},
		{"a process whose number is used again", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xffffffffffffff92
			10/10 0 210 sched_switch: prev_comm=t10 prev_pid=10 prev_prio=120 prev_state=X ==> next_comm=s next_pid=0 next_prio=120
			10/10 0 300 ` + waitCall + `
			10/10 0 500 sys_futex -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 10 [0 0 1 0 0 0 0 0] 100+0 by 10", "mutex 0x1000 10 [0 0 1 0 0 0 0 0] 200+0 by 10"}},
		{"another program", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xffffffffffffff92
			10/10 0 210 sched_process_exec: filename=/bin/x pid=10 old_pid=10
			10/10 0 300 ` + waitCall + `
			10/10 0 500 sys_futex -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 10 [0 0 1 0 0 0 0 0] 100+0 by 10", "mutex 0x1000 10 [0 0 1 0 0 0 0 0] 200+0 by 10"}},
		{"processes unknown: joined by a wakeup that can only have been theirs", `
			10 0 100 ` + waitCall + `
			11 1 300 ` + wakeCall + `
			11 1 310 sys_futex -> 0x1
			10 0 350 sys_futex -> 0x0
			11 1 400 ` + waitCall + `
			10 0 500 ` + wakeCall + `
			10 0 510 sys_futex -> 0x1
			11 1 550 sys_futex -> 0x0
			12 1 600 ` + waitCall + `
			12 1 650 sys_futex -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 -1 [0 0 1 0 0 0 0 0] 50+0 by 12", "mutex 0x1000 -1 [2 0 0 0 0 0 0 0] 400+0 by 10 11"}},
		{"processes unknown: two that could be one are left apart", `
			10 0 100 ` + waitCall + `
			20 1 101 ` + waitCall + `
			11 0 200 ` + wakeCall + `
			21 1 201 ` + wakeCall + `
			11 0 210 sys_futex -> 0x1
			21 1 211 sys_futex -> 0x1
			10 0 300 sys_futex -> 0x0
			20 1 301 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 -1 [1 0 0 0 0 0 0 0] 200+0 by 10", "mutex 0x1000 -1 [1 0 0 0 0 0 0 0] 200+0 by 20"}},
		{"processes unknown: the scheduler's events have the wakers", `
			10 0 100 ` + waitCall + `
			20 1 101 ` + waitCall + `
			11 0 200 ` + wakeCall + `
			21 1 201 ` + wakeCall + `
			11 0 205 sched_waking: comm=x pid=10 prio=120 target_cpu=000
			21 1 206 sched_waking: comm=x pid=20 prio=120 target_cpu=001
			11 0 210 sys_futex -> 0x1
			21 1 211 sys_futex -> 0x1
			10 0 300 sys_futex -> 0x0
			20 1 301 sys_futex -> 0x0
			11 0 400 ` + waitCall + `
			21 1 401 ` + waitCall + `
			11 0 500 sys_futex -> 0xffffffffffffff92
			21 1 502 sys_futex -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 -1 [1 0 1 0 0 0 0 0] 300+0 by 10 11", "mutex 0x1000 -1 [1 0 1 0 0 0 0 0] 301+0 by 20 21"}},
		{"processes unknown: after a loss no wakeup is proof", `
			10 0 100 ` + waitCall + `
			11 1 200 ` + wakeCall + `
			CPU:1 [LOST 2 EVENTS]
			11 1 310 sys_futex -> 0x1
			10 0 350 sys_futex -> 0x0
			11 1 400 ` + waitCall + `
			11 1 450 sys_futex -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 -1 [0 0 1 0 0 0 0 0] 50+0 by 11", "mutex 0x1000 -1 [1 0 0 0 0 0 0 0] 250+0 by 10"}},
		{"a signal, and the call again", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xfffffffffffffe00
			10/10 0 250 ` + waitCall + `
			10/10 0 300 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 10 [1 0 0 0 0 0 0 0] 150+0 by 10"}},
		{"a signal, its handler, and the call again", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xfffffffffffffe00
			10/10 0 210 sys_write(fd: 1, buf: 0x7ff, count: 1)
			10/10 0 220 sys_write -> 0x1
			10/10 0 230 sys_rt_sigreturn()
			10/10 0 231 sys_rt_sigreturn -> 0xca
			10/10 0 250 ` + waitCall + `
			10/10 0 300 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 10 [1 0 0 0 0 0 0 0] 150+0 by 10"}},
		{"a signal, and another call's restart_syscall", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xfffffffffffffe00
			10/10 0 250 sys_restart_syscall()
			10/10 0 300 sys_restart_syscall -> 0x0`,
			[]string{"mutex 0x1000 10 [0 0 0 1 0 0 0 0] 100+0 by 10"}},
		{"a number that is used again by another thread", `
			10/10 0 100 ` + waitCall + `
			9/9 0 200 task_newtask: pid=10 comm=x clone_flags=1200011 oom_score_adj=0
			10/10 0 300 ` + waitCall + `
			10/10 0 350 sys_futex -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 10 [0 0 0 0 0 0 1 0] 0+0 by ", "mutex 0x1000 10 [0 0 1 0 0 0 0 0] 50+0 by 10"}},
		{"a signal, and restart_syscall", `
			10/10 0 100 sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0x7ff, uaddr2: 0, val3: 0)
			10/10 0 200 sys_futex -> 0xfffffffffffffdfc
			10/10 0 250 sys_restart_syscall()
			10/10 0 300 sys_restart_syscall -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 10 [0 0 1 0 0 0 0 0] 150+0 by 10"}},
		{"a signal, and something else", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xfffffffffffffe00
			10/10 0 250 ` + wakeCall + `
			10/10 0 300 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 10 [0 0 0 1 0 0 0 0] 100+0 by 10"}},
		{"moved to another futex", `
			10/10 0 100 sys_futex(uaddr: 0x3000, op: 0x80, val: 7, utime: 0, uaddr2: 0, val3: 0)
			11/10 0 100 sys_futex(uaddr: 0x3000, op: 0x80, val: 7, utime: 0, uaddr2: 0, val3: 0)
			12/10 1 200 sys_futex(uaddr: 0x3000, op: 0x84, val: 1, utime: 0x7fffffff, uaddr2: 0x4000, val3: 0x7)
			12/10 1 210 sys_futex -> 0x2
			10/10 0 220 sys_futex -> 0x0
			10/10 0 300 sys_futex(uaddr: 0x4000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
			10/10 0 310 sys_futex -> 0x1
			11/10 0 320 sys_futex -> 0x0`,
			[]string{"condvar 0x3000 10 [1 0 0 0 1 0 0 0] 220+0 by 10 11", "unknown 0x4000 10 [1 0 0 0 0 0 0 0] 120+0 by 11"}},
		{"began before, not ended, and without a return", `
			9/9 0 90 sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=b next_pid=10 next_prio=120
			10/10 0 100 sys_futex -> 0xffffffffffffff92
			10/10 0 110 ` + waitCall + `
			10/10 0 200 ` + waitCall + `
			11/10 0 250 sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
			10/10 0 300 sys_futex -> 0x0`,
			[]string{"mutex 0x1000 10 [1 0 0 0 0 0 1 1] 100+50 by 10"}},
		{"numbers as before Linux 6.18, junk in the upper half, futex2", `
			10/10 0 100 sys_futex(uaddr: 1000, op: 80, val: ffffffff00000002, utime: 0, uaddr2: 0, val3: ffffffff00000000)
			11/10 1 300 sys_futex_wake(uaddr: 0x1000, mask: 0xffffffff, nr: 1, flags: 0x82)
			11/10 1 310 sys_futex_wake -> 0x1
			10/10 0 350 sys_futex -> 0
			10/10 0 400 sys_futex_wait(uaddr: 0x1000, val: 2, mask: 0xffffffff, flags: 0x82, timeout: 0, clockid: 1)
			10/10 0 450 sys_futex_wait -> 0xffffffffffffff92`,
			[]string{"mutex 0x1000 10 [1 0 1 0 0 0 0 0] 300+0 by 10"}},
		{"trace-cmd report", `
			10 0 100 sys_enter_futex:      op=FUTEX_WAIT|FUTEX_PRIVATE_FLAG uaddr=0x00001000 val=0x00000002 utime=0x00000000
			11 1 300 sys_enter_futex:      op=FUTEX_WAKE|FUTEX_PRIVATE_FLAG uaddr=0x00001000 val=1
			11 1 310 sys_exit_futex:       0x1
			10 0 350 sys_exit_futex:       0x0`,
			[]string{"mutex 0x1000 -1 [1 0 0 0 0 0 0 0] 250+0 by 10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := rows(reportOf(t, c.trace))
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestBeginAndWaitv(t *testing.T) {
	r := reportOf(t, `
		9 0 50 sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=b next_pid=10 next_prio=120
		10 0 100 sys_futex -> 0xffffffffffffff92
		11 0 150 sys_futex -> 0x0
		12 0 200 sys_futex -> 0x1
		10 0 300 sys_futex_waitv(waiters: 0x7ffe42a06b80, nr_futexes: 2, flags: 0, timeout: 0, clockid: 1)
		10 0 400 sys_futex_waitv -> 0x1`)
	if r.Before != (futex.Before{Waits: 1, Time: 50_000, Unclear: 1, UnclearTime: 100_000}) {
		t.Errorf("%+v", r.Before)
	}
	r2 := reportOf(t, `
		10 0 100 sys_futex -> 0xffffffffffffff92
		11 0 150 sys_futex -> 0x0`)
	if r2.Before != (futex.Before{Waits: 1, Unclear: 1, UnclearTime: 50_000}) {
		t.Errorf("of a trace that begins with a return: %+v", r2.Before)
	}
	if r.Waitv.Waits != 1 || r.Waitv.Time != 100_000 || len(r.Locks)+len(r.Signals) != 0 {
		t.Errorf("%+v", r.Waitv)
	}
}

// TestWaker: the first waiter gets the wakeup, unless it turns out that it
// did not wake up.
func TestWaker(t *testing.T) {
	r := reportOf(t, `
		10/10 0 100 `+waitCall+`
		11/10 1 110 `+waitCall+`
		12/10 2 200 `+wakeCall+`
		12/10 2 210 sys_futex -> 0x1
		11/10 1 230 sys_futex -> 0x0
		13/10 2 300 `+wakeCall+`
		13/10 2 310 sys_futex -> 0x1
		10/10 0 330 sys_futex -> 0x0`)
	got := make(map[int32]int32)
	for _, w := range r.Longest {
		got[w.TID] = w.Waker
	}
	if got[11] != 12 || got[10] != 13 {
		t.Errorf("wakers %v, want 12 of 11 and 13 of 10", got)
	}
}

// TestMovedToItself: a call that claims to move waiters to where they are takes
// no more time than there are waiters.
func TestMovedToItself(t *testing.T) {
	r := reportOf(t, `
		10/10 0 100 `+waitCall+`
		11/10 1 200 sys_futex(uaddr: 0x1000, op: 0x84, val: 0, utime: 0x7fffffff, uaddr2: 0x1000)
		11/10 1 210 sys_futex -> 0x3fffffff
		10/10 0 300 sys_futex -> 0x0`)
	if r.All.Time != 200_000 {
		t.Errorf("%+v", r.All)
	}
}

// TestInterrupt: a wakeup from an interrupt is not by the task that it
// interrupts.
func TestInterrupt(t *testing.T) {
	text := script(`
		10/10 0 100 ` + waitCall + `
		11/10 0 110 ` + waitCall + `
		12/10 1 200 ` + wakeCall + `
		12/10 1 201 sched_waking: comm=x pid=11 prio=120 target_cpu=000
		12/10 1 210 sys_futex -> 0x1
		10/10 0 300 sys_futex -> 0x0`)
	text = strings.Replace(text, ".....     0.000201", "d.h1.     0.000201", 1)
	r := analyseText(t, futex.Options{}, text).Report(futex.View{})
	if w := r.Longest[0]; w.TID != 10 || w.Waker != 12 {
		t.Errorf("%+v", w)
	}
}

// TestHolderProof: the threads that released a lock during a wait held it one after the
// other.
func TestHolderProof(t *testing.T) {
	r := reportOf(t, `
		10/10 0 1000 `+waitCall+`
		11/10 1 1100 `+wakeCall+`
		11/10 1 1110 sys_futex -> 0x1
		10/10 0 1120 sys_futex -> 0x0
		10/10 0 1130 `+waitCall+`
		12/10 2 3000 `+wakeCall+`
		12/10 2 3010 sys_futex -> 0x1
		10/10 0 3100 sys_futex -> 0x0`)
	w := r.Longest[0]
	if w.Holder.TID != 12 || !w.Holder.Sure || w.Time != tracefs.Time(1_970_000) {
		t.Errorf("%+v", w)
	}
	want := []futex.Segment{{TID: 12, From: 1_130_000, To: 3_000_000}}
	if !slices.Equal(w.Segments, want) {
		t.Errorf("%+v", w.Segments)
	}
}

func TestFilters(t *testing.T) {
	a := `
		10/10 0 100 ` + waitCall + `
		10/10 0 200 sys_futex -> 0xffffffffffffff92
		20/20 0 300 ` + waitCall + `
		20/20 0 600 sys_futex -> 0xffffffffffffff92`
	for _, c := range []struct {
		view   futex.View
		locks  int
		counts int
	}{
		{futex.View{}, 2, 2}, {futex.View{Top: 1}, 1, 2}, {futex.View{MinWait: 200_000}, 1, 2},
		{futex.View{PIDs: []int32{20}}, 1, 1}, {futex.View{Comms: []string{"t10"}}, 1, 1}, {futex.View{PIDs: []int32{5}}, 0, 0},
	} {
		r := analyseText(t, futex.Options{}, script(a)).Report(c.view)
		if len(r.Locks) != c.locks || r.LockCount != c.counts || int(r.Contended.Waits) != c.counts {
			t.Errorf("%+v: %d of %d locks, %d waits", c.view, len(r.Locks), r.LockCount, r.Contended.Waits)
		}
	}
}

// TestWokenInVain: a thread that is woken, finds the lock taken and waits again
// does not hold it.
func TestWokenInVain(t *testing.T) {
	r := reportOf(t, `
		10/10 0 100 `+waitCall+`
		11/10 1 200 `+wakeCall+`
		11/10 1 210 sys_futex -> 0x1
		10/10 0 250 sys_futex -> 0x0
		10/10 0 260 `+waitCall+`
		11/10 1 900000 sys_getpid()
		11/10 1 900001 sys_getpid -> 0x1`)
	if b := r.Blocked[0]; b.Owner != 0 || r.Verdict.Kind != futex.CannotTell {
		t.Errorf("owner %d, verdict %+v", b.Owner, r.Verdict)
	}
}

// TestWakerOfFile: the waker, in another process and at another address
// of it, need not wait there itself.
func TestWakerOfFile(t *testing.T) {
	a := analyseText(t, futex.Options{Mappings: oneFile{}}, script(`
		10 0 100 sys_futex(uaddr: 0x1000, op: 0, val: 2, utime: 0, uaddr2: 0, val3: 0)
		20 1 300 sys_futex(uaddr: 0x9000, op: 1, val: 1, utime: 0, uaddr2: 0, val3: 0)
		20 1 310 sys_futex -> 0x1
		10 0 350 sys_futex -> 0x0`))
	r := a.Report(futex.View{})
	if len(r.Longest) != 1 || r.Longest[0].Waker != 20 || r.Longest[0].Holder.TID != 20 || !r.Longest[0].Holder.Sure {
		t.Errorf("%+v", r.Longest)
	}
}
