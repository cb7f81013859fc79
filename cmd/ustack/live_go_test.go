//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestFutexLiveGo: goroutines that wait for locks of package sync make no call of futex. The
// report of such a program has no contention, and says what shows these waits.
func TestFutexLiveGo(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "workload")
	if text, err := exec.Command("go", "build", "-o", program, "../../render/futex/testdata/workload.go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, mode := range []string{"go-mutex", "go-rwmutex"} {
		out, err := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--", "sh", "-c", "echo go | "+program+" "+mode).Output()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(out)), " ")
		for _, want := range []string{"No lock contention in ", "goroutines that wait for a sync.Mutex or a channel make no futex call", "go tool pprof"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", mode, want, out)
			}
		}
	}
}
