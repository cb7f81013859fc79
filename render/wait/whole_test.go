package wait_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/wait"
)

// stackLines are the lines of a stack at offsets of one program, after its title.
func stackLines(tid, us int, title string, offsets ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%16s-%-7d [000] ..... %5d.%06d: <user stack trace>%s\n", fmt.Sprint("t", tid), tid, us/1_000_000, us%1_000_000, title)
	for _, o := range offsets {
		fmt.Fprintf(&b, " =>  <%016x> : path=/bin/p build_id={0x1,0x2,0x3,0x4,0x5}\n", o)
	}
	return b.String()
}

// TestWholeStacks: a thread that goes off its CPU in a system call, or wakes another one there,
// has the stack with which it made the call, if that goes further: it is unwound, and the
// kernel's own has only what frame pointers show.
func TestWholeStacks(t *testing.T) {
	const unwound = " unwound=registers,cfi*2 end=root"
	const call = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
	event := func(tid, us int, text string) string { return script(fmt.Sprintf("%d ..... %d %s", tid, us, text)) }
	trace := func(entry string, at int, between string) string {
		return event(11, 10, call) + event(11, 11, "sys_futex -> 0x0") + event(10, 100, call) + stackLines(10, 100, entry, 0x10, 0x20, 0x30) + between +
			event(10, 110, "off 10 S 11") + stackLines(10, 110, "", at) +
			event(11, 300, call) + stackLines(11, 300, " unwound=registers,cfi end=root", 0x50, 0x60) +
			event(11, 310, "wake 10") + stackLines(11, 310, "", 0x50) + event(11, 320, "sys_futex -> 0x1") +
			event(11, 330, "off 11 S 10") + event(10, 340, "sys_futex -> 0x0") + event(10, 350, "sys_getpid()")
	}
	for name, c := range map[string]struct {
		trace       string
		stack, wake int
	}{
		"whole":               {trace(unwound, 0x10, ""), 3, 2},
		"the kernel's":        {trace("", 0x10, ""), 1, 2},
		"of another place":    {trace(unwound, 0x18, ""), 1, 2},
		"of an ended call":    {trace(unwound, 0x10, event(10, 105, "sys_futex -> 0x0")), 1, 2},
		"returns are missing": {strings.ReplaceAll(strings.Repeat(event(10, 20, call), 9)+trace(unwound, 0x10, ""), event(10, 340, "sys_futex -> 0x0"), ""), 1, 2},
		"records were lost":   {trace(unwound, 0x10, "CPU:0 [LOST 3 EVENTS]\n"+event(13, 105, "sys_getpid()")), 1, 2},
	} {
		r := analyse(t, wait.Options{}, c.trace).Report(wait.View{})
		got, woke := -1, -1
		for _, row := range r.Rows {
			for _, s := range row.Sites {
				if s.Stack != nil {
					got = len(s.Stack.Frames)
				}
			}
			for _, w := range row.Wakers {
				if w.Stack != nil {
					woke = len(w.Stack.Frames)
				}
			}
		}
		if got != c.stack || woke != c.wake {
			t.Errorf("%s: %d frames, and %d of the waker, want %d and %d", name, got, woke, c.stack, c.wake)
		}
	}
}

// TestCallers: a row whose stack ends in the C library has the callers of most of the time that
// others waited at the same place of the same call.
func TestCallers(t *testing.T) {
	waits := func(at int, call, stack string) string {
		return script(fmt.Sprintf("10 ..... %d enter %s\n10 ..... %d off 10 S 11", at, call, at+10)) + stack +
			script(fmt.Sprintf("11 ..... %d off 11 S 10\n10 ..... %d exit %s", at+100, at+110, call))
	}
	libc := strings.NewReplacer("/bin/p", "/lib/x86_64-linux-gnu/libc.so.6")
	short := func(at, offset int) string { return libc.Replace(stackLines(10, at+10, "", offset)) }
	long := func(at, offset, caller int) string {
		return short(at, offset) + strings.SplitN(stackLines(10, at+10, "", caller), "\n", 2)[1]
	}
	trace := waits(1000, "0", short(1000, 0x10)) + waits(2000, "0", short(2000, 0x10)) + waits(3000, "0", short(3000, 0x10)) +
		waits(4000, "0", long(4000, 0x10, 0x100)) + waits(5000, "0", long(5000, 0x10, 0x200)) + waits(6000, "0", long(6000, 0x10, 0x200)) +
		waits(7000, "0", long(7000, 0x18, 0x300)) + waits(8000, "1", long(8000, 0x10, 0x400))
	found := 0
	for _, row := range analyse(t, wait.Options{AllCalls: true}, trace).Report(wait.View{By: wait.ByStack}).Rows {
		c := row.Callers
		if len(row.Sites) == 0 || row.Sites[0].Stack == nil {
			continue
		}
		if len(row.Sites[0].Stack.Frames) > 1 || row.Waits == 0 {
			if c != nil {
				t.Errorf("a row with callers has those of others: %+v", row)
			}
			continue
		}
		found++
		if c == nil || c.Waits != 3 || c.Stack.Frames[1].Offset != 0x200 || c.Part*3 != c.Time*2 {
			t.Errorf("callers %+v", c)
		}
	}
	if found != 1 {
		t.Errorf("%d rows without callers", found)
	}
}
