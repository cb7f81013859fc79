package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
)

// TestKindOfTimedLock: a mutex is one however threads wait for it.
func TestKindOfTimedLock(t *testing.T) {
	const timedLock = "sys_futex(uaddr: 0x1000, op: 0x189, val: 2, utime: 0x7ffe, uaddr2: 0, val3: 0xffffffff)"
	r := reportOf(t, `
		10/9 0 100 `+waitCall+`
		12/9 0 200 `+timedLock+`
		11/9 1 300 `+wakeCall+`
		11/9 1 310 sys_futex -> 0x1
		10/9 0 350 sys_futex -> 0x0
		12/9 0 900 `+timedOut)
	if len(r.Locks) != 1 || r.Locks[0].Kind != futex.Mutex || len(r.Longest) != 2 || !r.Longest[1].Holder.Sure {
		t.Errorf("%v", rows(r))
	}
}

// TestKindOfCounts: the condition variables of glibc since 2.41 are waited at with
// the count of their signals, which can be a number that a rwlock has too. Waits for
// a signal are none for a lock.
func TestKindOfCounts(t *testing.T) {
	const (
		forEver = "0x189" // FUTEX_WAIT_BITSET, with FUTEX_CLOCK_REALTIME
		timed   = "0x89"
		one     = "1"
		all     = "0x7fffffff"
	)
	for _, c := range []struct {
		name, op string
		values   []int
		wake     string
		want     futex.Kind
	}{
		{"counts", forEver, []int{2, 2, 3, 4, 4, 5}, one, futex.Condvar},
		{"from the beginning", forEver, []int{0, 1, 2, 2}, one, futex.Condvar},
		{"of which 2 is one", forEver, []int{0, 0, 2}, one, futex.Condvar},
		{"2 only, and one is woken", forEver, []int{2, 2}, one, futex.Condvar},
		{"with a time limit", timed, []int{4, 4, 6}, one, futex.Condvar},
		{"readers and writers in turn", forEver, []int{2, 3, 2}, all, futex.RWLock},
		{"writers after a writer", forEver, []int{3, 3}, one, futex.RWLock},
		{"readers after a writer", forEver, []int{14, 22}, all, futex.Unknown},
		{"a semaphore", forEver, []int{0, 0, 0, 0}, one, futex.Semaphore},
		{"a mutex with a time limit", timed, []int{2, 2}, one, futex.Mutex},
	} {
		timeout := 0
		if c.op == timed {
			timeout = 0x7ffe
		}
		var trace strings.Builder
		for i, v := range c.values {
			at := 10000 * i
			fmt.Fprintf(&trace, "10/9 0 %d sys_futex(uaddr: 0x1000, op: %s, val: %#x, utime: %#x, uaddr2: 0, val3: 0xffffffff)\n", at, c.op, v, timeout)
			fmt.Fprintf(&trace, "11/9 1 %d sys_futex(uaddr: 0x1000, op: 0x81, val: %s, utime: 0, uaddr2: 0, val3: 0)\n", at+500, c.wake)
			fmt.Fprintf(&trace, "11/9 1 %d sys_futex -> 0x1\n10/9 0 %d sys_futex -> 0x0\n", at+510, at+520)
		}
		r := reportOf(t, trace.String())
		if list := slices.Concat(r.Locks, r.Signals); len(list) != 1 || list[0].Kind != c.want {
			t.Errorf("%s: %v, want %s", c.name, rows(r), c.want)
		}
	}
}
