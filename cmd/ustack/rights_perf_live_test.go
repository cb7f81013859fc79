//go:build linux && (amd64 || arm64) && !device

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// groupShell is a shell that gets other rights when it is executed.
func groupShell(t *testing.T, dir string) string {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 || os.Getuid() != 0 {
		t.Skip("no set-group-ID programs of other groups here: ", err)
	}
	shell := filepath.Join(dir, "grouped")
	content, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	const group = 65534
	err = os.WriteFile(shell, content, 0o755)
	if err == nil {
		err = os.Chown(shell, 0, group)
	}
	if err == nil {
		err = os.Chmod(shell, 0o755|os.ModeSetgid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return shell
}

// TestLiveOtherRights: a program that gets other rights when the command executes it is traced by
// perf, too, although the kernel takes the events of perf from it then; and a message says so.
func TestLiveOtherRights(t *testing.T) {
	needLive(t)
	bin, dir := ustackBinary(t), t.TempDir()
	shell, out := groupShell(t, dir), filepath.Join(dir, "out.json")
	// Some of it is over when ustack sees that.
	script := shell + " -c 'i=0; while [ $i -lt 150 ]; do echo x; sleep 0.02; i=$((i+1)); done'; true"
	live := exec.Command(bin, "live", "--source="+sourcePerf, "--format=json", "-o", out, "-e", "syscalls:sys_enter_write", "--", "sh", "-c", script)
	said, err := live.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	got, err := os.ReadFile(out)
	if n := bytes.Count(got, []byte(`"comm":"grouped"`)); err != nil || n == 0 || !bytes.Contains(said, []byte("1 programs got other rights")) {
		t.Errorf("%d calls, %v\n%s", n, err, said)
	}
}

// TestLiveOtherRightsOfOthers: programs that the command has not started, and that get other rights
// meanwhile, are not traced.
func TestLiveOtherRightsOfOthers(t *testing.T) {
	needLive(t)
	bin, dir := ustackBinary(t), t.TempDir()
	shell, out := groupShell(t, dir), filepath.Join(dir, "out.json")
	beside := exec.Command("sh", "-c", "sleep 0.3; while :; do "+shell+" -c 'for i in 1 2 3 4 5; do echo x; sleep 0.02; done'; done")
	if err := beside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = beside.Process.Kill(), beside.Wait() }()
	live := exec.Command(bin, "live", "--source="+sourcePerf, "--format=json", "-o", out, "-e", "syscalls:sys_enter_write", "--", "sh", "-c", "sleep 2; echo x")
	said, err := live.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	got, err := os.ReadFile(out)
	if n := bytes.Count(got, []byte(`"comm":"grouped"`)); err != nil || n > 0 || bytes.Count(got, []byte(`"comm":"sh"`)) != 1 {
		t.Errorf("%d calls of others, %v\n%s", n, err, said)
	}
}
