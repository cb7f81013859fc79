package futex_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// calls describes the calls that wait, and what was lost.
func calls(t *testing.T, a *futex.Analysis, v futex.View) []string {
	t.Helper()
	var out []string
	err := a.WaitCalls(a.Report(v), v, func(c *futex.WaitCall) error {
		kind := "-"
		if c.Lock != nil {
			kind = c.Lock.Kind.String()
		}
		line := fmt.Sprintf("%d/%d %s %#x %d-%d %s", c.TID, c.PID, kind, c.Address, c.From/1000, c.To/1000, c.Result)
		if c.Resumed {
			line += " resumed"
		}
		if c.Before {
			line += " before"
		}
		if k := c.Waker; k.TID != 0 {
			line += fmt.Sprintf(" by %d/%d at %d", k.TID, k.PID, k.At/1000)
		}
		out = append(out, line)
		return nil
	}, func(l *futex.LostTime) error {
		out = append(out, fmt.Sprintf("lost %d on %d of %d %d-%d", l.Records, l.CPU, l.Buffer, l.From/1000, l.To/1000))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWaitCalls(t *testing.T) {
	for _, c := range []struct {
		name, trace string
		want        []string
	}{
		{"woken", `
			10/10 0 100 ` + waitCall + `
			11/10 1 300 ` + wakeCall + `
			11/10 1 310 sys_futex -> 0x1
			10/10 0 350 sys_futex -> 0x0`,
			[]string{"10/10 mutex 0x1000 100-350 woken by 11/10 at 300"}},
		{"a process that is known later", `
			10 0 100 ` + waitCall + `
			10 0 150 sys_futex -> 0xfffffffffffffff5
			10/7 0 200 ` + waitCall + `
			10/7 0 350 sys_futex -> 0xffffffffffffff92`,
			[]string{"10/7 mutex 0x1000 100-150 changed", "10/7 mutex 0x1000 200-350 timed out"}},
		{"a signal, and on", `
			10/10 0 100 ` + waitCall + `
			10/10 0 200 sys_futex -> 0xfffffffffffffe00
			10/10 0 250 ` + waitCall + `
			10/10 0 400 sys_futex -> 0x0`,
			[]string{"10/10 mutex 0x1000 100-200 interrupted", "10/10 mutex 0x1000 250-400 woken resumed"}},
		{"requeued", `
			10/10 0 100 sys_futex(uaddr: 0x1000, op: 0x80, val: 7, utime: 0, uaddr2: 0, val3: 0)
			11/10 1 300 sys_futex(uaddr: 0x1000, op: 0x83, val: 0, utime: 0x1, uaddr2: 0x2000, val3: 0)
			11/10 1 310 sys_futex -> 0x1
			11/10 1 400 sys_futex(uaddr: 0x2000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
			11/10 1 410 sys_futex -> 0x1
			10/10 0 450 sys_futex -> 0x0`,
			[]string{"10/10 condvar 0x1000 100-300 requeued by 11/10 at 300", "10/10 unknown 0x2000 300-450 woken by 11/10 at 400"}},
		{"no return, and no end", `
			10/10 0 100 ` + waitCall + `
			10/10 0 350 ` + waitCall + `
			11/10 0 400 sys_futex -> 0x1`,
			[]string{"10/10 mutex 0x1000 100-100 no return", "10/10 mutex 0x1000 350-400 open"}},
		{"before the trace", `
			9/9 0 50 sys_close(fd: 3)
			10/10 0 100 sys_futex -> 0xffffffffffffff92
			11/11 0 150 sys_futex -> 0x0
			12/12 0 160 sys_futex -> 0x1
			13/13 0 170 sys_read -> 0x0`,
			[]string{"10/10 - 0x0 50-100 timed out before", "11/11 - 0x0 50-150 woken before"}},
		{"lost", `
			10/10 0 100 ` + waitCall + `
			CPU:0 [LOST 12 EVENTS]
			10/10 0 350 sys_futex -> 0x0
			10/10 1 360 ` + wakeCall + `
			CPU:1 [LOST EVENTS]
			10/10 0 500 sys_futex -> 0x0`,
			[]string{"10/10 mutex 0x1000 100-350 woken", "lost 12 on 0 of 0 100-350", "lost 0 on 1 of 0 360-500"}},
		{"the same number, another process", `
			10/10 0 100 ` + waitCall + `
			10/10 0 350 sys_futex -> 0x0
			10/10 0 360 sched_process_exit: comm=t10 pid=10 prio=120 group_dead=true
			10/20 0 400 ` + waitCall + `
			10/20 0 450 sys_futex -> 0x0`,
			[]string{"10/10 mutex 0x1000 100-350 woken", "10/20 mutex 0x1000 400-450 woken"}},
		{"several at once", `
			10/10 0 100 sys_futex_waitv(waiters: 0x1000, nr_futexes: 2, flags: 0, timeout: 0, clockid: 0)
			10/10 0 350 sys_futex_waitv -> 0x0
			11/10 0 360 sys_futex -> 0x1`,
			[]string{"10/10 - 0x0 100-350 woken"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := analyseText(t, futex.Options{Calls: true}, script(c.trace))
			if got := calls(t, a, futex.View{}); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestWaitCallsView: what is not wanted is left out.
func TestWaitCallsView(t *testing.T) {
	text := script(`
		10/10 0 100 ` + waitCall + `
		20/20 1 150 ` + waitCall + `
		10/10 0 350 sys_futex -> 0x0
		20/20 1 550 sys_futex -> 0x0`)
	for _, c := range []struct {
		view futex.View
		want []string
	}{
		{futex.View{PIDs: []int32{20}}, []string{"20/20 mutex 0x1000 150-550 woken"}},
		{futex.View{MinWait: 300_000}, []string{"20/20 mutex 0x1000 150-550 woken"}},
		{futex.View{Comms: []string{"t10"}}, []string{"10/10 mutex 0x1000 100-350 woken"}},
	} {
		if got := calls(t, analyseText(t, futex.Options{Calls: true}, text), c.view); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c.view, got, c.want)
		}
	}
}

// TestWaitCallsSpill: more calls than the memory holds, at more futexes than are
// kept, come back as they were, and the file they were in has no name.
func TestWaitCallsSpill(t *testing.T) {
	capturetest.SkipShort(t)
	t.Setenv("TMPDIR", t.TempDir())
	var b strings.Builder
	const waits = 100_000
	for i := range waits {
		fmt.Fprintf(&b, "10/10 0 %d sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n10/10 0 %d sys_futex -> 0x0\n",
			10*i, 0x1000+4*(i%5000), 10*i+5)
	}
	a := analyseText(t, futex.Options{Calls: true, Locks: 1000}, script(b.String()))
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	v, n, known, again := futex.View{}, 0, 0, 0
	r := a.Report(v)
	err := a.WaitCalls(r, v, func(c *futex.WaitCall) error {
		if from := tracefs.Time(n) * 10_000; c.From != from || c.To != from+5_000 || c.Address != uint64(0x1000+4*(n%5000)) {
			return fmt.Errorf("call %d is %+v", n, c)
		}
		n++
		if c.Lock != nil {
			known++
			if c.Lock.Address != c.Address {
				return fmt.Errorf("call %d is of lock %#x: %+v", n, c.Lock.Address, c)
			}
		}
		return nil
	}, nil)
	if err != nil || n != waits || known == 0 || known == n {
		t.Errorf("%d calls, %d of a known lock: %v", n, known, err)
	}
	if err := a.WaitCalls(r, v, func(*futex.WaitCall) error { again++; return nil }, nil); err != nil || again != waits {
		t.Errorf("%d calls when they are asked for again: %v", again, err)
	}
	a.DropCalls()
}

// TestWaitCallsMemory: reading calls back takes no memory for each.
func TestWaitCallsMemory(t *testing.T) {
	const waits, most = 20_000, 2000
	var h hostile
	h.passBy(waits, 0)
	a := analyseText(t, futex.Options{Calls: true}, h.b.String())
	r := a.Report(futex.View{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	if err := a.WaitCalls(r, futex.View{}, func(*futex.WaitCall) error { n++; return nil }, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if pieces := after.Mallocs - before.Mallocs; n != waits || pieces > most {
		t.Errorf("%d pieces of memory for %d calls, want %d at most", pieces, n, most)
	}
	a.DropCalls()
}

// TestWaitCallsNoRoom: a missing place for the file is an error.
func TestWaitCallsNoRoom(t *testing.T) {
	capturetest.SkipShort(t)
	t.Setenv("TMPDIR", "/no/such/directory")
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "10/10 0 %d %s\n10/10 0 %d sys_futex -> 0x0\n", 10*i, waitCall, 10*i+5)
	}
	a := analyseText(t, futex.Options{Calls: true}, script(b.String()))
	err := a.WaitCalls(a.Report(futex.View{}), futex.View{}, func(*futex.WaitCall) error { return nil }, nil)
	if err == nil || !strings.Contains(err.Error(), "temporary file") {
		t.Errorf("the error is %v", err)
	}
}
