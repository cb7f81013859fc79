//go:build linux && (amd64 || arm64) && !device

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestFutexPerfAgrees: the reports of rings of perf and of the ring buffer of one run are the
// same: counts of the waits at each futex exactly, times within one percent.
func TestFutexPerfAgrees(t *testing.T) {
	needLive(t)
	log, perf, ring := twoReports(t, "--source="+sourcePerf, "-b", "16384")
	for _, r := range []*sumReport{perf, ring} {
		if r.Loss.Gaps+r.Loss.Records > 0 {
			t.Skipf("records are lost: %+v", r.Loss)
		}
	}
	sameWaits(t, log, "perf", perf, ring)
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
