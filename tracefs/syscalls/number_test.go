package syscalls

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestNumbers compares with the headers of the C library, where they are.
func TestNumbers(t *testing.T) {
	n := NewNumbers()
	for _, c := range []struct {
		table Table
		nr    int32
		want  string
	}{
		{AMD64, 0, "read"}, {AMD64, 35, "nanosleep"}, {AMD64, 75, "fdatasync"}, {AMD64, 202, "futex"}, {AMD64, 230, "clock_nanosleep"}, {AMD64, 449, "futex_waitv"},
		{Generic, 63, "read"}, {Generic, 83, "fdatasync"}, {Generic, 98, "futex"}, {Generic, 115, "clock_nanosleep"}, {Generic, 449, "futex_waitv"},
		{AMD64, 400, ""}, {AMD64, -1, ""}, {AMD64, 1 << 15, ""}, {NoTable, 0, ""}, {I386 + 1, 0, ""},
		{I386, 0, "restart_syscall"}, {I386, 162, "nanosleep"}, {I386, 240, "futex"}, {I386, 422, "futex_time64"}, {I386, 449, "futex_waitv"},
	} {
		if got := n.Name(c.table, c.nr); got != c.want {
			t.Errorf("call %d of table %d is %q, want %q", c.nr, c.table, got, c.want)
		}
	}
	if TableOf(202) != AMD64 || TableOf(98) != Generic || TableOf(1) != NoTable {
		t.Error("futex has other numbers")
	}
	compare(t, n, AMD64, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
	compare(t, n, I386, "/usr/include/x86_64-linux-gnu/asm/unistd_32.h")
}

// compare compares the names of a table with a header.
func compare(t *testing.T, n *Numbers, table Table, header string) {
	f, err := os.Open(header)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	define := regexp.MustCompile(`^#define __NR_(\w+) (\d+)$`)
	compared := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		m := define.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		nr, err := strconv.ParseInt(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Name(table, int32(nr)); got != m[1] && got != "" {
			t.Errorf("call %d of table %d is %q, want %q", nr, table, got, m[1])
		}
		compared++
	}
	if compared < 300 {
		t.Errorf("%d calls of table %d", compared, table)
	}
}

func TestParseRaw(t *testing.T) {
	for body, want := range map[string]struct {
		nr       int32
		exit, ok bool
	}{
		"sys_enter: NR 74 (3, 0, 0, 0, 0, 0)\n":   {74, false, true},
		"sys_exit: NR 74 = 0\n":                   {74, true, true},
		"sys_enter:            NR 202 (7f, 80)\n": {202, false, true},
		"sys_enter: NR -1 (0)\n":                  {},
		"sys_enter: NR 99999999 (0)\n":            {},
		"sys_enter: 74\n":                         {},
		"sys_enter_read: NR 74\n":                 {},
		"sys_exit":                                {},
	} {
		nr, exit, ok := ParseRaw([]byte(body))
		if ok != want.ok || ok && (nr != want.nr || exit != want.exit) {
			t.Errorf("%q: %d, exit %v, %v", body, nr, exit, ok)
		}
	}
}
