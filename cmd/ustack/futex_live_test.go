//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// TestFutexLive: the answer of a trace that is made now.
func TestFutexLive(t *testing.T) {
	_, work := workload(t)
	cmd := exec.Command(ustackBinary(t), "futex", "--live", "--json", "--", work, "herd")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	noInstance(t, cmd.Process.Pid)
	var report struct {
		Locks []struct {
			Address    string
			Shared     bool
			Waits      int
			TotalNS    int64 `json:"total_ns"`
			WaitStacks []struct {
				Stack []struct{ Path string }
			} `json:"wait_stacks"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	// Four threads take one mutex 20 times each, and hold it for a millisecond.
	if len(report.Locks) == 0 {
		t.Fatalf("no locks\n%s", &out)
	}
	first := report.Locks[0]
	if first.Shared || first.Waits < 20 || first.Waits > 100 || first.TotalNS < 20e6 || !strings.HasPrefix(first.Address, "0x") {
		t.Errorf("%+v", first)
	}
	found := false
	for _, s := range first.WaitStacks {
		for _, f := range s.Stack {
			found = found || f.Path == work
		}
	}
	if !found {
		t.Errorf("the program is in none of the stacks\n%s", &out)
	}
}
