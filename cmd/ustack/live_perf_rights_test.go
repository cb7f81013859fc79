//go:build linux && !device

package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
	"ustack/tracefs/privilege/privilegetest"
)

// TestLivePerfRights: a user with CAP_PERFMON and CAP_DAC_READ_SEARCH traces with perf, and a
// frame of the program has a file, which is proven if no records are lost. Without one of them, the message has its name.
func TestLivePerfRights(t *testing.T) {
	needLive(t)
	const perfmon, search = privilege.Set(1 << unix.CAP_PERFMON), privilege.Set(1 << unix.CAP_DAC_READ_SEARCH)
	for _, c := range []struct {
		name   string
		rights privilege.Set
		says   string
	}{
		{"both", perfmon | search, "stacks of perf"},
		{"perf only", perfmon, "CAP_DAC_READ_SEARCH"},
		{"reading tracefs only", search, "CAP_PERFMON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); c.rights == search && (err != nil || strings.TrimSpace(string(b)) < "1") {
				t.Skipf("perf_event_paranoid is %s (%v): no right is needed", b, err)
			}
			bin := privilegetest.Program(t, "ustack")
			privilegetest.Give(t, bin, c.rights, false)
			code, said, pid := asOther(t, bin, "live", "--source="+sourcePerf, "-e", "syscalls:sys_enter_write", "--", "/bin/sh", "-c", "echo done")
			noInstance(t, pid)
			if strings.Contains(said, "locked memory") {
				t.Skipf("other programs of the user have the memory: %s", said)
			}
			works := c.rights == perfmon|search
			if works != (code == exitOK) || !strings.Contains(said, c.says) {
				t.Fatalf("exit code %d, want %q:\n%s", code, c.says, said)
			}
			if works && (!strings.Contains(said, "sys_write(fd: 1") || !strings.Contains(said, " : path=") || strings.Contains(said, "files are late")) {
				t.Errorf("no frame with a file:\n%s", said)
			}
			if works && !strings.Contains(said, "ustack: lost ") && !strings.Contains(said, " verified") {
				t.Errorf("nothing is lost, and no frame is proven:\n%s", said)
			}
		})
	}
}
