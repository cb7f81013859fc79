//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestLiveNothing: a process that makes none of the calls that are traced. The message
// says what it does, and the exit code is not 0.
func TestLiveNothing(t *testing.T) {
	needLive(t)
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cat.Wait() }()
	pid := fmt.Sprint(cat.Process.Pid)
	waits := "; cat (PID " + pid + ") waits in read"
	loop := exec.Command("sh", "-c", "while :; do :; done")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loop.Process.Kill(); _ = loop.Wait() }()
	busy := fmt.Sprint(loop.Process.Pid)
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"live -p " + pid, "no futex call" + waits + ".", 1},
		{"futex --live -p " + pid, "try: ustack wait --symbols -p " + pid, 1},
		{"futex --live -p " + busy, "try: perf top -p " + busy, 1},
		{"wait -p " + pid, "no wait that began or ended" + waits, 1},
		{"live -e syscalls:sys_enter_execve -p " + pid, "no event of those that were asked for" + waits, 1},
		{"record -o " + t.TempDir() + "/report --ring -p " + pid, "", 0},
	} {
		args := strings.Fields(c.args)
		ustack := exec.Command(ustackBinary(t), append(args, "-q", "--duration=200ms")...)
		out, _ := ustack.CombinedOutput()
		if code := ustack.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) || c.want == "" && strings.Contains(string(out), "nothing seen") {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.want, out)
		}
	}
	ustack := exec.Command(ustackBinary(t), "live", "-e", "syscalls:sys_enter_kill", "--", "sh", "-c", "exit 7")
	out, _ := ustack.CombinedOutput()
	if code := ustack.ProcessState.ExitCode(); code != 7 || !strings.Contains(string(out), "of those that were asked for of the command") {
		t.Errorf("exit code %d, want the command's\n%s", code, out)
	}
}
