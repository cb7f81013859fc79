//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveTwo: of two that trace all processes, the second one leaves the first
// one alone. Otherwise each would make events for the other, without an end.
func TestLiveTwo(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	bin := ustackBinary(t)
	first := exec.Command(bin, "live", "-o", os.DevNull)
	stderr := &startLine{begun: make(chan struct{})}
	first.Stderr = stderr
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	out := filepath.Join(t.TempDir(), "out")
	second := exec.Command(bin, "live", "-q", "-o", out, "--duration", "2s")
	// On a machine at rest there may be nothing to see.
	const nothing = "no futex call of any process"
	if text, err := second.CombinedOutput(); err != nil && !strings.Contains(string(text), nothing) {
		t.Errorf("%v\n%s", err, text)
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", first.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil && !strings.Contains(stderr.text.String(), nothing) {
		t.Errorf("%v\n%s", err, &stderr.text)
	}
	trace, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if line := regexp.MustCompile(`(?m)^ *\S+-` + task.Name() + ` .*`).Find(trace); line != nil {
			t.Errorf("it traced the first one: %s", line)
		}
	}
	noInstance(t, first.Process.Pid)
	noInstance(t, second.Process.Pid)
}
