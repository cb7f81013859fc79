package text

import "testing"

func TestSplitEvent(t *testing.T) {
	for _, c := range []struct{ body, name, args string }{
		{"sys_futex(uaddr: 0x55ded87d003c, op: 0x80, val: 5)\n", "sys_enter_futex", "uaddr: 0x55ded87d003c, op: 0x80, val: 5"},
		{"sys_getpid()\n", "sys_enter_getpid", ""},
		{"sys_openat2(filename: 0x1 \"a)b(\")\n", "sys_enter_openat2", `filename: 0x1 "a)b("`},
		{"sys_futex -> 0xfffffffffffffff5\n", "sys_exit_futex", "0xfffffffffffffff5"},
		{"sys_futex -> \n", "sys_exit_futex", ""},
		{"sys_enter_futex: uaddr: 0x1\n", "sys_enter_futex", "uaddr: 0x1"},
		{"sys_enter: NR 202 (1, 2)\n", "sys_enter", "NR 202 (1, 2)"},
		{"sys_futex(uaddr: 0x1\n", "", "sys_futex(uaddr: 0x1"},
		{"sys_(x)\n", "", "sys_(x)"},
		{"sched_switch: prev_comm=a ==> next_comm=b\n", "sched_switch", "prev_comm=a ==> next_comm=b"},
		{"sched_switch:         a:14 [120] W\n", "sched_switch", "a:14 [120] W"},
		{"tracing_mark_write: two\nlines\n", "tracing_mark_write", "two\nlines"},
		{"tracing_mark_write: two\n\n", "tracing_mark_write", "two\n"},
		{"ev:\n", "ev", ""},
		{"ev:x\n", "ev", "x"},
		{"0xffff: x", "0xffff", "x"},
		{"no name\n", "", "no name"},
		{"# 1 buf: 61 62\n", "", "# 1 buf: 61 62"},
		{": x\n", "", ": x"},
		{"name\n", "", "name"},
		{"\n", "", ""},
		{"", "", ""},
	} {
		name, args := SplitEvent([]byte(c.body))
		if got := name.Prefix + string(name.Name); got != c.name || string(args) != c.args {
			t.Errorf("SplitEvent(%q) = %q, %q, want %q, %q", c.body, got, args, c.name, c.args)
		}
	}
}
