package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
)

// TestHints: a report has a note on locks of runtimes that futexes do not show, where
// threads wait through the runtime, and not for other files with such a name.
func TestHints(t *testing.T) {
	const (
		lock = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
		cond = "sys_futex(uaddr: 0x1000, op: 0x189, val: 7, utime: 0, uaddr2: 0, val3: 0xffffffff)"
		note = "sys_futex(uaddr: 0xc000001000, op: 0x80, val: 0, utime: 0, uaddr2: 0, val3: 0)"
	)
	for _, c := range []struct {
		call, path string
		names      asNames
		want       string
	}{
		{lock, "/usr/lib/postgresql/15/bin/postgres", nil, "PostgreSQL"},
		{lock, "/usr/bin/postgres-exporter", nil, ""},
		{lock, "/usr/sbin/mariadbd", nil, "InnoDB"},
		{lock, "/usr/lib/jvm/lib/server/libjvm.so", nil, "jstack"},
		{lock, "/usr/lib/jvm/lib/server/libjvm.so", asNames{"", "ObjectMonitor::enter(JavaThread*)"}, ""},
		{cond, "/usr/bin/python3.11", asNames{"pthread_cond_timedwait", ""}, "GIL"},
		{cond, "/usr/lib/libpython3.11.so.1.0", asNames{"pthread_cond_timedwait", ""}, "GIL"},
		{cond, "/usr/bin/python3.11", asNames{"pthread_cond_timedwait", "take_gil"}, ""},
		{lock, "/usr/bin/python3.11", asNames{"pthread_mutex_lock", ""}, ""},
		{cond, "/usr/lib/libruby-3.1.so.3.1.2", asNames{"pthread_cond_wait", ""}, "GVL"},
		{lock, "/usr/lib/libruby-3.1.so.3.1.2", asNames{"pthread_mutex_lock", ""}, ""},
		{note, "/usr/bin/served", nil, "mutex and block profiles"},
		{lock, "/usr/bin/other", nil, ""},
	} {
		a := analyseText(t, futex.Options{}, strings.ReplaceAll(waitWith(c.call, 2, true), "/bin/p", c.path))
		if c.names != nil {
			a.Name(c.names)
		}
		notes := a.Report(futex.View{}).Hints
		of := func(word string) bool {
			return slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, word) })
		}
		for _, word := range []string{"PostgreSQL", "InnoDB", "jstack", "GIL", "GVL", "mutex and block profiles"} {
			if of(word) != (word == c.want) {
				t.Errorf("%s, %s, %q: %q", c.path, c.call, c.names, notes)
			}
		}
	}
}

// TestHintElsewhere: where locks cost next to nothing the report says what shows where the
// time goes instead.
func TestHintElsewhere(t *testing.T) {
	const waits = "\n10 0 %d000 " + waitCall + "\n11 1 %d000 " + wakeCall + "\n11 1 %d001 sys_futex -> 0x1\n10 0 %d010 sys_futex -> 0x0\n"
	wait := func(from, to int) string { return fmt.Sprintf(waits, from, to, to, to) }
	turn := func(at int, prev, state, next string) string {
		return fmt.Sprintf("\n%s 0 %d000 sched_switch: prev_comm=a prev_pid=%s prev_prio=120 prev_state=%s ==> next_comm=b next_pid=%s next_prio=120\n", prev, at, prev, state, next)
	}
	const begins, ends = "0 1 0 sys_getpid()\n", "\n11 1 3000000 sys_getpid()"
	for name, c := range map[string]struct{ trace, want string }{
		"short":       {begins + wait(10, 11), ""},
		"contended":   {begins + wait(10, 600) + ends, ""},
		"unscheduled": {begins + wait(10, 11) + ends, "ustack wait -p PID shows what else threads wait for, perf top"},
		"ran":         {begins + wait(10, 11) + turn(20, "0", "R", "10") + turn(2800, "10", "S", "0") + ends, "ran 93 % of the time: perf top -p PID"},
		"runs":        {begins + wait(10, 11) + turn(20, "0", "R", "10") + ends, "ran 99 % of the time: perf top -p PID"},
		"goroutines":  {begins + strings.NewReplacer("0x1000", "0xc000001000", "val: 2", "val: 0").Replace(wait(10, 11)) + turn(20, "0", "R", "10") + ends, "go tool pprof)"},
		"comes unseen": {begins + wait(10, 11) + turn(20, "0", "R", "10") + turn(25, "10", "S", "0") + turn(2800, "10", "S", "0") + ends,
			"ustack wait -p PID shows what else threads wait for"},
		"slept":       {begins + wait(10, 11) + turn(20, "0", "R", "10") + turn(25, "10", "S", "0") + ends, "ustack wait -p PID shows what else threads wait for"},
		"another ran": {begins + wait(10, 11) + turn(20, "0", "R", "99") + turn(2800, "99", "S", "0") + ends, "ustack wait -p PID shows"},
	} {
		hints := strings.Join(reportOf(t, c.trace).Hints, "; ")
		if !strings.Contains(hints, c.want) || c.want == "" && hints != "" || name == "goroutines" && strings.Contains(hints, "next to nothing") {
			t.Errorf("%s: %q, want %q", name, hints, c.want)
		}
	}
}

// TestHintOwn: threads that wake each other, and wait at a futex of one thread each, may make
// a lock of a program's own of them; where another thread wakes them all they do not.
func TestHintOwn(t *testing.T) {
	const call = "sys_futex(uaddr: 0x%d000, op: 0x80, val: 0, utime: 0, uaddr2: 0, val3: 0)"
	const wake = "sys_futex(uaddr: 0x%d000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)"
	trace := func(waker func(i int) int) string {
		var b strings.Builder
		for i := range 40 {
			tid, at := 10+i%2, 100*(i+1)
			fmt.Fprintf(&b, "%d 0 %d000 "+call+"\n", tid, at, tid)
			fmt.Fprintf(&b, "%d 1 %d000 "+wake+"\n%d 1 %d001 sys_futex -> 0x1\n", waker(tid), at+80, tid, waker(tid), at+80)
			fmt.Fprintf(&b, "%d 0 %d010 sys_futex -> 0x0\n", tid, at+80)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		waker func(tid int) int
		want  bool
	}{
		"each other":     {func(tid int) int { return 21 - tid }, true},
		"another thread": {func(int) int { return 12 }, false},
	} {
		hints := strings.Join(reportOf(t, trace(c.waker)).Hints, "; ")
		if got := strings.Contains(hints, "wake each other at 2 futexes"); got != c.want || got && (!strings.Contains(hints, "--symbols") || strings.Contains(hints, "next to nothing")) {
			t.Errorf("%s: %q", name, hints)
		}
	}
}
