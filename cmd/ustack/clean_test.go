package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/instance"
)

// TestLiveClean: in the real tracefs, the instance of a process that is dead
// goes; while it is being read, the command fails and says so.
func TestLiveClean(t *testing.T) {
	needLive(t)
	root, err := instance.Find("")
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	name := instance.Prefix + strconv.Itoa(dead.Process.Pid)
	path := filepath.Join(root.Path(), "instances", name)
	t.Cleanup(func() { _ = os.Remove(path) })
	reader := leaveBusy(t, path)

	// There may be instances of others that cannot be removed.
	clean := func() (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run([]string{"clean"}, nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	if code, stdout, stderr := clean(); code != exitFailure || strings.Contains(stdout, name) || !strings.Contains(stderr, name+": another process has one of its files open") {
		t.Errorf("while it is read: %d, %q, %q", code, stdout, stderr)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := clean(); strings.Contains(stderr, name) || code != exitOK && stderr == "" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s: %v", path, err)
	}
}

// leaveBusy makes an instance and opens its pipe, while no other process can clean.
func leaveBusy(t *testing.T, path string) *os.File {
	t.Helper()
	all, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if err := unix.Flock(int(all.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o750); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(filepath.Join(path, "trace_pipe"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return reader
}
