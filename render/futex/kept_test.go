package futex_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ustack/render/futex"
)

// ofMany is a trace with something new in each wait.
func ofMany(kind string, n int) string {
	var b strings.Builder
	for i := range n {
		tid, tgid, addr, stack := 100, 100, 0x1000, 0x500000
		switch kind {
		case "locks":
			addr += 8 * i
		case "threads":
			tid += i
		case "processes":
			tid, tgid = tid+i, tgid+i
		case "stacks":
			stack += 8 * i
		case "pairs": // of a lock, a thread and a stack
			addr, tid, stack = addr+8*(i%64), tid+i/64%64, stack+8*(i*7%512)
		}
		event := func(body string) {
			fmt.Fprintf(&b, "%16s-%-7d (%7d) [000] ..... %5d.%06d: %s\n", "a", tid, tgid, i/100_000, i%100_000*10, body)
		}
		event(fmt.Sprintf("sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr))
		event("<user stack trace>")
		fmt.Fprintf(&b, " =>  <%016x>\n", stack)
		event("sys_futex -> 0xffffffffffffff92")
	}
	return b.String()
}

// TestKeptOfMany: a trace that goes on and on, with something new in each wait, takes no more
// memory than what is kept has bounds for, and no wait is missing in the sum.
func TestKeptOfMany(t *testing.T) {
	const few, many, more = 5_000, 20_000, 200 << 10
	opt := futex.Options{Locks: 64, Stacks: 256, Threads: 128}
	for _, kind := range []string{"locks", "threads", "processes", "stacks", "pairs"} {
		kept := func(n int) int64 {
			text := ofMany(kind, n)
			before := heap()
			a := analyseText(t, opt, text)
			used := heap() - before
			if r := a.Report(futex.View{}); r.All.Waits != int64(n) {
				t.Errorf("%s: %d waits of %d", kind, r.All.Waits, n)
			}
			runtime.KeepAlive(text)
			return used
		}
		if first, then := kept(few), kept(many); then > first+more {
			t.Errorf("%s: %d waits take %d bytes, %d take %d", kind, few, first, many, then)
		}
	}
}
