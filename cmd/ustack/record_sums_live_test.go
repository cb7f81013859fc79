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

// TestRecordSums: what a flight recorder of BPF sums keeps of a run gives the report that futex
// makes of the same run: counts and times of each futex, and the long waits with their stacks.
func TestRecordSums(t *testing.T) {
	needBPF(t)
	dir := t.TempDir()
	program, name := filepath.Join(dir, "sumwaits"), filepath.Join(dir, "report.zst")
	compile(t, program, "sumwaits.c")
	victim, in, out := sumVictim(t, program, "40")
	ustack, pid := ustackBinary(t), strconv.Itoa(victim.Process.Pid)
	var reports [2]sumReport
	var text strings.Builder
	var watches [2]*exec.Cmd
	for i, args := range [2][]string{
		{"futex", "--live", "--source=bpf", "--min-wait=10ms", "--json", "--top=1000", "-p", pid},
		{"record", "--source=bpf", "--ring", "--keep=1h", "--trigger=futex-wait>11ms", "--after=1h", "-o", name, "-p", pid},
	} {
		w := exec.Command(ustack, args...)
		said := &startLine{begun: make(chan struct{})}
		w.Stderr = said
		if i == 0 {
			w.Stdout = &text
		}
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		<-said.begun
		watches[i] = w
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	log := readSumLog(t, bufio.NewScanner(out))
	in.Close() // the process ends, and so does the trace: the report that is due later is written
	for _, w := range watches {
		if err := w.Wait(); err != nil {
			t.Fatalf("%v: %v", w.Args, err)
		}
	}
	saved, err := exec.Command(ustack, "futex", "--json", "--top=1000", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range [2][]byte{[]byte(text.String()), saved} {
		if err := json.Unmarshal(b, &reports[i]); err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
	}
	if strings.Contains(strings.Join(reports[0].Notes, "\n"), "are missing") {
		t.Skipf("records are lost: %v", reports[0].Notes)
	}
	if len(log) == 0 {
		t.Error("the program has waited at no futex")
	}
	for name, l := range log {
		a, b := reports[0].row(name), reports[1].row(name)
		if a == nil || b == nil {
			t.Errorf("%s: %+v and %+v", name, a, b)
			continue
		}
		if a.Waits != b.Waits || a.Woken != b.Woken || a.TimedOut != b.TimedOut || a.Wakes != b.Wakes || a.Threads != b.Threads {
			t.Errorf("%s: by futex %+v\nby record %+v", name, a, b)
		}
		if off := max(a.Total-b.Total, b.Total-a.Total); off*100 > b.Total { // two programs read the clock
			t.Errorf("%s: %d ns by futex, %d by record", name, a.Total, b.Total)
		}
		if n := stacked(b); n < l.sure || n > l.maybe {
			t.Errorf("%s: %d waits with a stack; %d to %d are long", name, n, l.sure, l.maybe)
		}
	}
}

// stacked returns how many waits of a futex have a stack.
func stacked(r *sumRow) (n int) {
	for _, s := range r.WaitStacks {
		if len(s.Stack) > 0 {
			n += s.Count
		}
	}
	return n
}
