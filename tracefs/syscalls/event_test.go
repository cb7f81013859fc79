package syscalls

import (
	"bytes"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		body string
		want Event
	}{
		{"sys_futex(uaddr: 0x55ded87d003c, op: 0x80, val: 5, utime: 0, uaddr2: 0, val3: 0xffffffffffffffff)\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: Wait, Private: true, Addr: 0x55ded87d003c, HasAddr: true, Val: 5}}},
		// Before Linux 6.18 the numbers are hexadecimal without 0x.
		{"sys_futex(uaddr: 55ded87d003c, op: 189, val: 10, utime: 7ffe01, uaddr2: 0, val3: ffffffff)\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: WaitBitset, Private: true, Realtime: true, Timeout: true, Addr: 0x55ded87d003c, HasAddr: true, Val: 16}}},
		// Registers: the upper half of an int is whatever was there.
		{"sys_futex(uaddr: 0x10, op: 0xdead00000081, val: 0xffffffff7fffffff, utime: 0x77, uaddr2: 0x20, val3: 0)\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: Wake, Private: true, Addr: 0x10, HasAddr: true, Val: 0x7fffffff, Val2: 0x77}}},
		{"sys_futex(u32 * uaddr: 0x10, int op: 0x84, u32 val: 1, const struct __kernel_timespec * utime: 0x7fffffff, u32 * uaddr2: 0x20, u32 val3: 3)\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: CmpRequeue, Private: true, Addr: 0x10, Addr2: 0x20, HasAddr: true, Val: 1, Val2: 0x7fffffff}}},
		{"sys_futex(uaddr: 0x10, op: 0x6ff, val: 1)\n", Event{Call: FutexOp, Futex: Futex{Cmd: Unknown, Private: true, Addr: 0x10, HasAddr: true, Val: 1}}},
		{"sys_futex(op: 0x281, uaddr: 0x10, val: 1, uaddr2: 0x99)\n", Event{Call: FutexOp, Futex: Futex{Cmd: Wake, Private: true, Addr: 0x10, HasAddr: true, Val: 1}}},
		{"sys_futex(uaddr: 0x10, op: 6, val: 0, utime: 0x7ffe)\n", Event{Call: FutexOp, Futex: Futex{Cmd: LockPI, Timeout: true, Addr: 0x10, HasAddr: true}}},
		{"sys_futex(uaddr: 0x1", Event{Call: FutexOp, Futex: Futex{Cmd: Unknown, Addr: 1, HasAddr: true}}},
		{"sys_futex()\n", Event{Call: FutexOp, Futex: Futex{Cmd: Unknown}}},
		{"sys_futex -> 0xfffffffffffffff5\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: EAGAIN}},
		{"sys_futex -> fffffffffffffe00\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: ERESTARTSYS}},
		{"sys_futex -> 0xfffffff5\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: EAGAIN}}, // 32 bits
		{"sys_mmap -> 0xfffff000\n", Event{Call: Other, Exit: true, HasResult: true, Result: 0xfffff000}},
		{"sys_futex -> 0x1\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: 1}},
		{"sys_futex -> -110\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: ETIMEDOUT}},
		{"sys_futex -> \n", Event{Call: FutexOp, Exit: true}},
		{"sys_restart_syscall()\n", Event{Call: RestartSyscall}},
		{"sys_restart_syscall -> 0x0\n", Event{Call: RestartSyscall, Exit: true, HasResult: true}},
		{"sys_futex_waitv(waiters: 0x7ffe42a06b80, nr_futexes: 2, flags: 0, timeout: 0x7ffe42a06bc0, clockid: 1)\n",
			Event{Call: FutexWaitv, Futex: Futex{Cmd: Waitv, Timeout: true}}},
		{"sys_futex_wait(uaddr: 0x56166f7ec054, val: 0, mask: 0xffffffff, flags: 0x82, timeout: 0x7ffe42a06bc0, clockid: 1)\n",
			Event{Call: FutexWait, Futex: Futex{Cmd: WaitBitset, Private: true, Timeout: true, Addr: 0x56166f7ec054, HasAddr: true}}},
		{"sys_futex_wake(uaddr: 0x56166f7ec054, mask: 0xffffffff, nr: 1, flags: 0x82)\n",
			Event{Call: FutexWake, Futex: Futex{Cmd: WakeBitset, Private: true, Addr: 0x56166f7ec054, HasAddr: true, Val: 1}}},
		{"sys_futex_requeue(waiters: 0x7ffe42a06b80, flags: 0, nr_wake: 1, nr_requeue: 2)\n",
			Event{Call: FutexRequeue, Futex: Futex{Cmd: RequeueV, Val: 1, Val2: 2}}},
		// perf and trace-cmd: with the event's name, the plug-in's words, and -R.
		{"sys_enter_futex: uaddr: 0x10, op: 0x00000081, val: 0x00000001\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: Wake, Private: true, Addr: 0x10, HasAddr: true, Val: 1}}},
		{"sys_enter_futex:      op=FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG|FUTEX_CLOCK_REALTIME uaddr=0x55cd681e40e8 val=0x00000000 utime=0x7fd3d88e5e80 val3=0xffffffff\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: WaitBitset, Private: true, Realtime: true, Timeout: true, Addr: 0x55cd681e40e8, HasAddr: true}}},
		{"sys_enter_futex:      op=FUTEX_CMP_REQUEUE uaddr=0x10 val=10 val2=20 uaddr2=0x20 val3=0x00000000\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: CmpRequeue, Addr: 0x10, Addr2: 0x20, HasAddr: true, Val: 10, Val2: 20}}},
		{"sys_enter_futex:       __syscall_nr=202 uaddr=0x7fd3 op=0x00000109 val=0x0000089b utime=0x00000000 uaddr2=0x00000000 val3=0xffffffff\n",
			Event{Call: FutexOp, Futex: Futex{Cmd: WaitBitset, Realtime: true, Addr: 0x7fd3, HasAddr: true, Val: 0x89b}}},
		{"sys_exit_futex:       0x1\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: 1}},
		{"sys_exit_futex:        __syscall_nr=202 ret=0x1\n", Event{Call: FutexOp, Exit: true, HasResult: true, Result: 1}},
		{"sys_getpid()\n", Event{Call: Other}},
		{"sys_getpid -> 0x10\n", Event{Call: Other, Exit: true, HasResult: true, Result: 16}},
	} {
		var got Event
		if !Parse([]byte(c.body), &got) || got != c.want {
			t.Errorf("Parse(%q)\n got %+v\nwant %+v", c.body, got, c.want)
		}
		if enters := EntersWait([]byte(c.body)); enters != entersWait(&c.want) {
			t.Errorf("EntersWait(%q) is %v", c.body, enters)
		}
	}
	for _, body := range []string{"", "sys_", "sys_x", "sys_futex", "sys_futex: x", "sched_switch: prev_comm=a", "xsys_futex(uaddr: 1)"} {
		if Parse([]byte(body), new(Event)) {
			t.Errorf("Parse(%q) took it", body)
		}
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	var e Event
	for _, body := range []string{
		"sys_futex(uaddr: 0x55ded87d003c, op: 0x80, val: 5, utime: 0, uaddr2: 0, val3: 0xffffffffffffffff)\n",
		"sys_enter_futex: op=FUTEX_CMP_REQUEUE|FUTEX_PRIVATE_FLAG uaddr=0x10 val=10\n",
		"sys_futex -> 0xfffffffffffffff5\n",
	} {
		b := []byte(body)
		if n := testing.AllocsPerRun(100, func() { Parse(b, &e) }); n > 0 {
			t.Errorf("Parse(%q) allocates %v times", body, n)
		}
	}
}

// entersWait is EntersWait for a decoded event.
func entersWait(e *Event) bool {
	return !e.Exit && e.Call != Other && e.Call != RestartSyscall && e.Futex.Cmd.Waits()
}

// usualAgainstAny fails if the short way reads arguments otherwise than the long
// one, and reports whether it reads them.
func usualAgainstAny(t *testing.T, args []byte) bool {
	t.Helper()
	var usual, any raw
	if !usual.usual(args) {
		return false
	}
	if any.parse(args); usual != any {
		t.Errorf("%q is %+v, want %+v", args, usual, any)
	}
	var e Event
	body := append([]byte("sys_futex("), args...)
	if enters := EntersWait(body); !Parse(body, &e) || enters != entersWait(&e) {
		t.Errorf("EntersWait(%q) is %v", body, enters)
	}
	return true
}

// TestUsual changes usual arguments: each byte to each byte that may stand there.
func TestUsual(t *testing.T) {
	const args = "uaddr: 0x55ded87d003c, op: 0x80, val: ffffffff, utime: 0, uaddr2: 7f00, val3: 0)"
	taken := 0
	for i := range len(args) {
		for _, c := range []byte(" \n,:)(x09afgu_2=-") {
			changed := []byte(args)
			changed[i] = c
			for _, b := range []string{string(changed), args[:i] + args[i+1:], args[:i] + string(c) + args[i:]} {
				if usualAgainstAny(t, []byte(b)) {
					taken++
				}
			}
		}
	}
	if taken == 0 {
		t.Error("the short way took nothing")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("sys_futex(uaddr: 0x55ded87d003c, op: 0x80, val: 5, utime: 0, uaddr2: 0, val3: 0)\n"))
	f.Add([]byte("sys_enter_futex: op=FUTEX_WAIT|FUTEX_PRIVATE_FLAG uaddr=0x10 val=0x00000000 utime=0x1\n"))
	f.Add([]byte("sys_futex_wait(uaddr: 1, val: 0, mask: 0xffffffff, flags: 0x82, timeout: 0, clockid: 1)"))
	f.Add([]byte("sys_exit_futex: __syscall_nr=202 ret=0x1"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var e Event
		if !Parse(body, &e) {
			return
		}
		usualAgainstAny(t, bytes.TrimPrefix(body, []byte("sys_futex(")))
		if e.Exit && e.Futex != (Futex{}) {
			t.Errorf("a return with arguments: %+v", e)
		}
		if !e.Exit && (e.HasResult || e.Call == Other && e.Futex != (Futex{})) {
			t.Errorf("an entry with a result, or a call with arguments of another: %+v", e)
		}
		if e.Futex.Cmd > Unknown || e.Futex.Cmd.String() == "" {
			t.Errorf("no such command: %+v", e)
		}
		var again Event
		if !Parse(append(body[:len(body):len(body)], "\nsys_futex(uaddr: 1)"...), &again) || again != e {
			t.Errorf("what follows the line changes it: %+v, %+v", e, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	body := []byte("sys_futex(uaddr: 0x55ded87d003c, op: 0x80, val: 5, utime: 0, uaddr2: 0, val3: 0xffffffffffffffff)\n")
	var e Event
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		Parse(body, &e)
	}
}
