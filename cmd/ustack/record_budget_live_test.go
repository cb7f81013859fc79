//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/budget"
	"ustack/tracefs/capturetest"
)

// TestRecordBudgetKilled kills recorders while they write reports, and leaves no tracing behind:
// what they have written is what the state says, and is never more than the budget.
func TestRecordBudgetKilled(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin, dir := ustackBinary(t), t.TempDir()
	victim := exec.Command(work, "hammer", "0", "0")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = victim.Wait()
	}()
	limits := budget.Limits{Bytes: 256 << 10, Reports: 4}
	written := int64(0)
	for round := range 6 {
		cmd := exec.Command(bin, "record", "-q", "--ring", "--trigger", "signal", "--after", "0s", "--cool-down", "0s", "--budget", "256K/day,4/day",
			"-o", filepath.Join(dir, fmt.Sprint("r", round)), "-p", strconv.Itoa(victim.Process.Pid))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		traces(t, cmd)
		if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if time.Sleep(time.Duration(round*30) * time.Millisecond); round%2 == 1 {
			eventually(t, "the report begins", func() bool {
				names, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("r%d*", round)))
				return len(names) > 0
			})
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		cleanAfter(t, bin, cmd.Process.Pid)
		written = checkBudget(t, dir, limits)
	}
	if written == 0 {
		t.Error("nothing was written")
	}
}

// checkBudget compares a state file with the reports beside it, and returns how many bytes these
// have.
func checkBudget(t *testing.T, dir string, limits budget.Limits) (bytes int64) {
	t.Helper()
	reports := int64(0)
	names, err := filepath.Glob(filepath.Join(dir, "r*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes += st.Size(); st.Size() > 0 {
			reports++
		}
	}
	b, warning, err := budget.Open(filepath.Join(dir, "ustack.state"), limits, budget.Clock("/proc"))
	if err != nil || warning != "" {
		t.Fatalf("%q, %v", warning, err)
	}
	left, err := b.Left()
	if err != nil || left.Bytes != limits.Bytes-bytes || left.Reports != limits.Reports-reports {
		t.Errorf("%+v is left, %v; %d bytes and %d reports were written", left, err, bytes, reports)
	}
	t.Logf("%d bytes in %d reports", bytes, reports)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes
}
