//go:build linux && !device

package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
	"ustack/tracefs/privilege/privilegetest"
)

// TestLivePerfRights: a user with CAP_PERFMON and CAP_DAC_READ_SEARCH traces with perf, and a
// frame of the program has a file, which is proven if no records are lost. Without
// CAP_PERFMON there is the side band of the command, where kernel.perf_event_paranoid is 1
// or 2, and files are late. Without the other one, the message has its name.
func TestLivePerfRights(t *testing.T) {
	needLive(t)
	const perfmon, search = privilege.Set(1 << unix.CAP_PERFMON), privilege.Set(1 << unix.CAP_DAC_READ_SEARCH)
	for _, c := range []struct {
		name   string
		rights privilege.Set
		says   string
	}{
		{"both", perfmon | search, "mappings by perf side band, "},
		{"perf only", perfmon, "CAP_DAC_READ_SEARCH"},
		{"reading tracefs only", search, "perf side band of the traced processes (files are late: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rights == search {
				needOwn(t)
			}
			bin := privilegetest.Program(t, "ustack")
			privilegetest.Give(t, bin, c.rights, false)
			code, said, pid := asOther(t, bin, "live", "--source="+sourcePerf, "-e", "syscalls:sys_enter_write", "--", "/bin/sh", "-c", "echo done")
			noInstance(t, pid)
			if strings.Contains(said, "locked memory") {
				t.Skipf("other programs of the user have the memory: %s", said)
			}
			works := c.rights&search != 0
			if works != (code == exitOK) || !strings.Contains(said, c.says) {
				t.Fatalf("exit code %d, want %q:\n%s", code, c.says, said)
			}
			if works && (!strings.Contains(said, "sys_write(fd: 1") || !strings.Contains(said, " : path=") || strings.Contains(said, "(late)") != (c.rights == search)) {
				t.Errorf("no frame with a file:\n%s", said)
			}
			if c.rights == perfmon|search && !strings.Contains(said, "ustack: lost ") && !strings.Contains(said, " verified") {
				t.Errorf("nothing is lost, and no frame is proven:\n%s", said)
			}
		})
	}
}

// needOwn skips a test where users may trace more, or less, than system calls of processes
// of their own.
func needOwn(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if level := strings.TrimSpace(string(b)); err != nil || level != "1" && level != "2" {
		t.Skipf("perf_event_paranoid is %s (%v)", level, err)
	}
}

// TestLivePerfOwn: a user without CAP_PERFMON traces system calls of a process of one's own
// that runs already: its children that end at once have files, too. Nothing else can be
// traced that way, and the message says so.
func TestLivePerfOwn(t *testing.T) {
	needLive(t)
	needOwn(t)
	bin := privilegetest.Program(t, "ustack")
	privilegetest.Give(t, bin, 1<<unix.CAP_DAC_READ_SEARCH, false)
	own := exec.Command("/bin/sh", "-c", "while :; do /bin/echo x >/dev/null; sleep 0.05; done")
	own.Dir, own.SysProcAttr = "/", privilegetest.Attributes()
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = own.Process.Kill()
		_ = own.Wait()
	}()
	pid := strconv.Itoa(own.Process.Pid)
	write := []string{"live", "--source=" + sourcePerf, "-e", "syscalls:sys_enter_write"}
	futex := []string{"futex", "--live", "--source=" + sourcePerf}
	for _, c := range []struct {
		args  []string
		code  int
		wants []string
	}{
		{append(slices.Clone(write), "-p", pid, "--duration=2s"), exitOK, []string{"of the traced processes", "sys_write(fd: 1", "(late) : path="}},
		{append(slices.Clone(futex), "--", "/bin/sh", "-c", "echo done"), exitFailure, []string{"sched_switch and sched_waking need CAP_PERFMON", "no futex call of the command"}},
		{append(slices.Clone(write), "-p", "1", "--duration=1s"), exitFailure, []string{"thread 1: ", "CAP_PERFMON"}},
		{append(slices.Clone(write), "--duration=1s"), exitFailure, []string{"of your own can be traced, with -p", "CAP_PERFMON"}},
		{[]string{"live", "--source=" + sourcePerf, "-e", "raw_syscalls:sys_enter", "-p", pid, "--duration=1s"}, exitFailure, []string{"no system calls need it"}},
	} {
		code, said, _ := asOther(t, bin, c.args...)
		if strings.Contains(said, "locked memory") {
			t.Skipf("other programs of the user have the memory: %s", said)
		}
		for _, want := range c.wants {
			if code != c.code || !strings.Contains(said, want) {
				t.Errorf("%q: exit code %d, want %q:\n%.2000s", c.args, code, want, said)
			}
		}
		if frame := firstFrame(said, "echo-"); c.args[0] == "live" && c.code == exitOK && !strings.Contains(frame, "(late) : path=") {
			t.Errorf("a child that has ended: %q\n%.2000s", frame, said)
		}
	}
}

// firstFrame returns the first frame of a task of a trace, "" if there is none.
func firstFrame(trace, task string) string {
	_, rest, _ := strings.Cut(trace, task)
	_, rest, _ = strings.Cut(rest, "<user stack trace>\n")
	frame, _, _ := strings.Cut(rest, "\n")
	return frame
}
