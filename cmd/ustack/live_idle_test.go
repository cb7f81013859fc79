//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveIdle: a trace without records, while the machine maps more
// code than the side band has room for.
func TestLiveIdle(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	script := `"$0" mapper 15000; exec "$0" status 3`
	var r liveRun
	for range 3 { // on a busy machine we may not get our turn in time
		r = traceLive(t, []string{"-e", "syscalls:sys_enter_execve"}, "sh", "-c", script, work)
		if !strings.Contains(r.stderr, "of what was mapped") {
			break
		}
	}
	if strings.Contains(r.stderr, "of what was mapped") {
		t.Errorf("records are lost\n%s", r.stderr)
	}
	if len(r.events) != 2 || r.code != 3 {
		t.Errorf("%d calls of execve, want 2; exit code %d", len(r.events), r.code)
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	tr.file(shell, shell)
	tr.libraries(shell)
	for _, e := range r.events {
		for k, f := range e.Stack {
			tr.frame(&e, k, &f)
			if f.Path != "" && f.Trust != "verified" {
				t.Errorf("%s is %s", f.Path, f.Trust)
			}
		}
	}
}
