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
	dir := t.TempDir()
	program := filepath.Join(dir, "sumwaits")
	compile(t, program, "sumwaits.c")
	victim, in, out := sumVictim(t, program, "40")
	ustack, pid := ustackBinary(t), strconv.Itoa(victim.Process.Pid)
	var reports [2]sumReport
	var texts [2]strings.Builder
	var watches [2]*exec.Cmd
	for i, flags := range [2][]string{{"--source=bpf"}, {"--source=binary", "-b", "16384"}} {
		w := exec.Command(ustack, append([]string{"futex", "--live", "--json", "--top=1000", "-p", pid}, flags...)...)
		said := &startLine{begun: make(chan struct{})}
		w.Stdout, w.Stderr = &texts[i], said
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		<-said.begun
		if i == 1 {
			traces(t, w)
		}
		watches[i] = w
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	log := readSumLog(t, bufio.NewScanner(out))
	in.Close()
	for i, w := range watches {
		if err := w.Wait(); err != nil {
			t.Fatalf("%v: %v", w.Args, err)
		}
		if err := json.Unmarshal([]byte(texts[i].String()), &reports[i]); err != nil {
			t.Fatalf("%v in\n%s", err, &texts[i])
		}
	}
	if loss := &reports[1].Loss; strings.Contains(strings.Join(reports[0].Notes, "\n"), "are missing") || loss.Gaps+loss.Records > 0 {
		t.Skipf("records are lost: %v, %+v", reports[0].Notes, loss)
	}
	for name := range log {
		a, b := reports[0].row(name), reports[1].row(name)
		if a == nil || b == nil {
			t.Errorf("%s: %+v and %+v", name, a, b)
			continue
		}
		if a.Waits != b.Waits || a.Woken != b.Woken || a.TimedOut != b.TimedOut {
			t.Errorf("%s: by BPF %+v\nby the ring buffer %+v", name, a, b)
		}
		if off := max(a.Total-b.Total, b.Total-a.Total); off*100 > b.Total {
			t.Errorf("%s: %d ns by BPF, %d by the ring buffer", name, a.Total, b.Total)
		}
		t.Logf("%s: %d waits, %d ns by BPF, %d by the ring buffer", name, a.Waits, a.Total, b.Total)
	}
}
