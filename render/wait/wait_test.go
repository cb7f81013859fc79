package wait_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/wait"
	"ustack/tracefs/syscalls"
)

// script writes records "TID FLAGS us body", of CPU 0.
func script(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) < 4 {
			continue
		}
		if f[0] == "CPU" {
			b.WriteString("CPU:0 [LOST 3 EVENTS]\n")
			continue
		}
		us := 0
		_, _ = fmt.Sscan(f[2], &us)
		comm := "t" + f[0]
		if f[0] == "0" {
			comm = "<idle>"
		}
		fmt.Fprintf(&b, "%16s-%-7s [000] %s %5d.%06d: %s\n", comm, f[0], f[1], us/1_000_000, us%1_000_000, body(f[3]))
	}
	return b.String()
}

// body writes out short forms of events.
func body(s string) string {
	f := strings.Fields(s)
	switch f[0] {
	case "off": // off PREV STATE NEXT
		return fmt.Sprintf("sched_switch: prev_comm=t%[1]s prev_pid=%[1]s prev_prio=120 prev_state=%[2]s ==> next_comm=t%[3]s next_pid=%[3]s next_prio=120", f[1], f[2], f[3])
	case "wake":
		return fmt.Sprintf("sched_waking: comm=t%[1]s pid=%[1]s prio=120 target_cpu=000", f[1])
	case "enter":
		return fmt.Sprintf("sys_enter: NR %s (3, 7ffc01234568, 0, 0, 0, 0)", f[1])
	case "exit":
		return fmt.Sprintf("sys_exit: NR %s = 0", f[1])
	}
	return s
}

// lines describes the rows of a report.
func lines(r *wait.Report) (out []string) {
	for _, x := range r.Rows {
		if len(x.Sites) == 0 {
			out = append(out, fmt.Sprintf("doubt %d at most %d", x.Doubt.Waits, x.Doubt.AtMost/1000))
			continue
		}
		s := &x.Sites[0]
		line := fmt.Sprintf("%s %s%s %d", s.Kind, s.Call, s.Why, x.Time/1000)
		if x.Ready > 0 {
			line += fmt.Sprintf("+%d", x.Ready/1000)
		}
		if x.Open > 0 {
			line += fmt.Sprintf(" open %d", x.OpenTime/1000)
		}
		if x.Unsplit > 0 {
			line += " unsplit"
		}
		for _, w := range x.Wakers {
			switch {
			case w.Interrupt:
				line += " by interrupt"
			case w.TID != 0:
				line += fmt.Sprintf(" by %d", w.TID)
			}
		}
		out = append(out, line)
	}
	return out
}

func TestWaits(t *testing.T) {
	const pair = "10 ..... 10 enter 39\n10 ..... 11 exit 39\n" // shows that entries have returns
	for _, c := range []struct {
		name, trace string
		want        []string
	}{
		{"a read, woken by a thread", pair + `10 ..... 20 enter 0
			10 d..2. 30 off 10 S 11
			11 d..4. 50 wake 10
			11 d..2. 60 off 11 R 10
			10 ..... 61 exit 0`, []string{"io read 20+10 by 11"}},
		{"preemption is no wait", pair + `10 ..... 20 enter 0
			10 d..2. 30 off 10 R+ 11
			11 d..2. 60 off 11 R 10`, nil},
		{"woken by an interrupt, on idle or on a thread", pair + `10 ..... 20 enter 74
			10 d..2. 30 off 10 D 0
			0 d.h4. 50 wake 10
			0 d..2. 60 off 0 R 10
			10 d..2. 70 off 10 D 11
			11 d.s4. 75 wake 10
			11 d..2. 80 off 11 R 10`, []string{"file fsync 25+15 by interrupt"}},
		{"a page fault, and what is none", pair + `10 ..... 20 page_fault_user: address=0x1000 ip=0x2000 error_code=0x4
			10 d..2. 30 off 10 D 11
			11 d..4. 50 wake 10
			11 d..2. 60 off 11 R 10
			10 ..... 70 enter 39
			10 ..... 71 exit 39
			10 d..2. 80 off 10 D 11
			11 d..4. 90 wake 10`, []string{"page-fault  20+10 by 11", "outside  10 by 11"}},
		{"woken while it goes off", pair + `10 ..... 20 enter 0
			11 d..4. 29 wake 10
			10 d..2. 30 off 10 S 11
			11 d..2. 60 off 11 R 10
			10 ..... 61 exit 0`, []string{"io read 0+30 by 11"}},
		{"woken for nothing before", pair + `10 ..... 20 enter 0
			11 d..4. 25 wake 10
			10 d..2. 30 off 10 S 12
			12 d..4. 40 wake 10
			12 d..2. 60 off 12 R 10`, []string{"io read 10+20 by 12"}},
		{"the same, and it is not seen to run", pair + `10 ..... 20 enter 0
			11 d..4. 25 wake 10
			10 d..2. 30 off 10 S 12
			12 d..4. 40 wake 10
			10 ..... 50 exit 0`, []string{"doubt 1 at most 10"}},
		{"the switch from idle is not in the trace", pair + `10 ..... 20 enter 0
			10 d..2. 30 off 10 S 0
			11 d..4. 50 wake 10
			10 ..... 61 exit 0`, []string{"io read 20 by 11"}},
		{"no end but a later record", pair + `10 ..... 20 enter 0
			10 d..2. 30 off 10 S 0
			10 ..... 61 exit 0`, []string{"doubt 1 at most 31"}},
		{"it has not ended", pair + `10 ..... 20 enter 232
			10 d..2. 30 off 10 S 0
			11 ..... 95 enter 1`, []string{"poll epoll_wait 0 open 65"}},
		{"no call is seen", pair + `12 d..2. 30 off 12 S 10
			10 d..4. 50 wake 12
			10 d..2. 60 off 10 R 12`, []string{"unknown no-call-seen 20+10 by 10"}},
		{"stopped", pair + `10 ..... 20 enter 0
			10 d..2. 30 off 10 T 11
			11 d..4. 50 wake 10`, []string{"stopped  20 by 11"}},
		{"rt_sigreturn returns as -1", pair + `10 ..... 20 enter 15
			10 ..... 21 exit -1
			10 d..2. 30 off 10 D 11
			11 d..4. 50 wake 10`, []string{"outside  20 by 11"}},
		{"calls are missing", pair + `10 ..... 20 enter 0
			10 ..... 21 enter 1
			10 d..2. 30 off 10 S 11
			11 d..4. 50 wake 10`, []string{"unknown calls-missing 20 by 11"}},
		{"a loss before the wait, and one in it", pair + `10 ..... 20 enter 0
			CPU 0 0 LOST
			11 ..... 25 enter 0
			10 d..2. 30 off 10 S 11
			11 d..4. 50 wake 10
			11 d..2. 60 off 11 R 10
			10 d..2. 70 off 10 S 11
			CPU 0 0 LOST
			11 d..4. 80 wake 10`, []string{"unknown lost 20+10 by 11"}},
	} {
		a := analyse(t, wait.Options{Machine: syscalls.AMD64}, script(c.trace))
		got := lines(a.Report(wait.View{By: wait.ByCall}))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
		checked(t, a)
	}
}

// TestMachine: how calls are numbered is learnt from the events of futex, and calls that
// may be of 32 bits have no names.
func TestMachine(t *testing.T) {
	const trace = `10 ..... 10 enter 39
		10 ..... 11 exit 39
		%s
		10 ..... 20 enter 63
		10 d..2. 30 off 10 S 11
		11 d..4. 50 wake 10`
	for futex, want := range map[string]string{
		"": "unknown no-name 20 by 11",
		"10 ..... 12 enter 98\n10 ..... 12 sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n10 ..... 14 exit 98":   "io read 20 by 11",
		"10 ..... 12 enter 202\n10 ..... 12 sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n10 ..... 14 exit 202": "call uname 20 by 11",
	} {
		r := analyse(t, wait.Options{}, script(fmt.Sprintf(trace, futex))).Report(wait.View{By: wait.ByCall})
		if got := lines(r); len(got) != 1 || got[0] != want {
			t.Errorf("%q: got %q, want %q", futex, got, want)
		}
	}
	narrow := strings.ReplaceAll(script(fmt.Sprintf(trace, "")), "7ffc01234568", "1234568")
	if got := lines(analyse(t, wait.Options{Machine: syscalls.AMD64}, narrow).Report(wait.View{By: wait.ByCall})); len(got) != 1 || got[0] != "unknown 32-bit 20 by 11" {
		t.Errorf("of a thread that may be one of 32 bits: %q", got)
	}
}

// TestNamed: a trace of some calls by name has the kind of waits in these.
func TestNamed(t *testing.T) {
	const trace = `10 ..... 10 sys_recvfrom(fd: 3)
		10 ..... 11 sys_recvfrom -> 0x1
		10 ..... 20 sys_recvfrom(fd: 3)
		10 d..2. 30 off 10 S 11
		11 d..4. 50 wake 10
		11 d..2. 55 off 11 R 10
		10 ..... 60 sys_recvfrom -> 0x1
		10 d..2. 70 off 10 S 11
		11 d..4. 80 wake 10`
	r := analyse(t, wait.Options{}, script(trace)).Report(wait.View{By: wait.ByCall})
	if got := lines(r); !slices.Equal(got, []string{"socket recvfrom 20+5 by 11", "unknown no-call-seen 10 by 11"}) {
		t.Errorf("got %q", got)
	}
}
