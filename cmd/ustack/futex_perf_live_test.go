//go:build linux && (amd64 || arm64) && !device

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFutexPerfAgrees: the reports of rings of perf and of the ring buffer of one run are the
// same: counts of the waits at each futex exactly, times within one percent.
func TestFutexPerfAgrees(t *testing.T) {
	needLive(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "sumwaits")
	compile(t, program, "sumwaits.c")
	victim, in, out := sumVictim(t, program, "40")
	ustack, pid := ustackBinary(t), strconv.Itoa(victim.Process.Pid)
	var reports [2]sumReport
	var texts [2]strings.Builder
	var watches [2]*exec.Cmd
	for i, source := range [2]string{sourcePerf, sourceBinary} {
		w := exec.Command(ustack, "futex", "--live", "--json", "--top=1000", "--source="+source, "-b", "16384", "-p", pid)
		said := &startLine{begun: make(chan struct{})}
		w.Stdout, w.Stderr = &texts[i], said
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		<-said.begun // it traces
		if source == sourceBinary {
			traces(t, w) // another message may have been the first one
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
	for i := range reports {
		if loss := &reports[i].Loss; loss.Gaps+loss.Records > 0 {
			t.Skipf("records are lost: %+v", loss)
		}
	}
	for name := range log {
		a, b := reports[0].row(name), reports[1].row(name)
		if a == nil || b == nil {
			t.Errorf("%s: %+v and %+v", name, a, b)
			continue
		}
		if a.Waits != b.Waits || a.Woken != b.Woken || a.TimedOut != b.TimedOut {
			t.Errorf("%s: by perf %+v\nby the ring buffer %+v", name, a, b)
		}
		if off := max(a.Total-b.Total, b.Total-a.Total); off*100 > b.Total {
			t.Errorf("%s: %d ns by perf, %d by the ring buffer", name, a.Total, b.Total)
		}
		t.Logf("%s: %d waits, %d ns by perf, %d by the ring buffer", name, a.Waits, a.Total, b.Total)
	}
}

// TestRecordPerf: a report of rings of perf replays as any other.
func TestRecordPerf(t *testing.T) {
	needLive(t)
	bin, report := ustackBinary(t), filepath.Join(t.TempDir(), "report")
	const calls = 200
	script := "i=0; while [ $i -lt " + strconv.Itoa(calls) + " ]; do echo x; i=$((i+1)); done"
	record := exec.Command(bin, "record", "--source="+sourcePerf, "-e", "syscalls:sys_enter_write", "-o", report, "--", "sh", "-c", script)
	var said bytes.Buffer
	record.Stderr = &said
	if err := record.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if lostLine.Match(said.Bytes()) {
		t.Skipf("records are lost:\n%s", &said)
	}
	if _, err := os.Stat(report); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, "replay", "-q", "--format=json", report).Output()
	if err != nil {
		t.Fatal(err)
	}
	events, files := bytes.Count(out, []byte(`"name":"sys_enter_write"`)), bytes.Count(out, []byte(`"path":"`))
	if events != calls || files < calls {
		t.Errorf("%d events, %d frames with a file, not %d:\n%s", events, files, calls, out[:min(len(out), 2000)])
	}
}
