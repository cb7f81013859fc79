//go:build linux && (amd64 || arm64) && !device

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFutexSumsAgree: the sums of BPF and the report of the ring buffer of one run are the same:
// counts of the waits at each futex exactly, times within one percent.
func TestFutexSumsAgree(t *testing.T) {
	needBPF(t)
	log, sums, ring := twoReports(t, "--source=bpf")
	if strings.Contains(strings.Join(sums.Notes, "\n"), "are missing") || ring.Loss.Gaps+ring.Loss.Records > 0 {
		t.Skipf("records are lost: %v, %+v", sums.Notes, ring.Loss)
	}
	sameWaits(t, log, "BPF", sums, ring)
}

// twoReports runs a program, and returns its log, with the reports of it by other flags and of
// the ring buffer, both of the same run.
func twoReports(t *testing.T, flags ...string) (log map[string]*sumLog, other, ring *sumReport) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sumwaits")
	compile(t, program, "sumwaits.c")
	victim, in, out := sumVictim(t, program, "40")
	ustack, pid := ustackBinary(t), strconv.Itoa(victim.Process.Pid)
	var reports [2]sumReport
	var texts [2]strings.Builder
	var watches [2]*exec.Cmd
	for i, flags := range [2][]string{flags, {"--source=" + sourceBinary, "-b", "16384"}} {
		w := exec.Command(ustack, append([]string{"futex", "--live", "--json", "--top=1000", "-p", pid}, flags...)...)
		said := &startLine{begun: make(chan struct{})}
		w.Stdout, w.Stderr = &texts[i], said
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		<-said.begun
		if i == 1 {
			traces(t, w) // another message may have been the first one
		}
		watches[i] = w
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	log = readSumLog(t, bufio.NewScanner(out))
	in.Close()
	for i, w := range watches {
		if err := w.Wait(); err != nil {
			t.Fatalf("%v: %v", w.Args, err)
		}
		if err := json.Unmarshal([]byte(texts[i].String()), &reports[i]); err != nil {
			t.Fatalf("%v in\n%s", err, &texts[i])
		}
	}
	return log, &reports[0], &reports[1]
}

// sameWaits holds the waits at each futex of a log in a report by some source against those in
// the report of the ring buffer.
func sameWaits(t *testing.T, log map[string]*sumLog, by string, other, ring *sumReport) {
	t.Helper()
	if len(log) == 0 {
		t.Error("the program has waited at no futex")
	}
	for name := range log {
		a, b := other.row(name), ring.row(name)
		if a == nil || b == nil {
			t.Errorf("%s: %+v and %+v", name, a, b)
			continue
		}
		if a.Waits != b.Waits || a.Woken != b.Woken || a.TimedOut != b.TimedOut {
			t.Errorf("%s: by %s %+v\nby the ring buffer %+v", name, by, a, b)
		}
		if off := max(a.Total-b.Total, b.Total-a.Total); off*100 > b.Total {
			t.Errorf("%s: %d ns by %s, %d by the ring buffer", name, a.Total, by, b.Total)
		}
		t.Logf("%s: %d waits, %d ns by %s, %d by the ring buffer", name, a.Waits, a.Total, by, b.Total)
	}
}
