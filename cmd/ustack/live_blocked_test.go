//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// liveBlocked runs a program under live --unwind=blocked, and holds what replay makes of
// what was saved against it.
func liveBlocked(t *testing.T, format string, command ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	saved, out := filepath.Join(dir, "saved"), filepath.Join(dir, "out")
	args := []string{"live", "--unwind=blocked", "-b", "8192", "--format", format, "--save", saved, "-o", out, "--"}
	text, err := exec.Command(ustackBinary(t), append(args, command...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "waits of over 1 ms unwound while they last") {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
	live, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	sameReplayed(t, live, saved, format)
	return live
}

// TestLiveBlocked: stacks that are read while threads wait belong to their calls, which say
// by which functions they came.
func TestLiveBlocked(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	work := t.TempDir()
	tagged, waits := filepath.Join(work, "tagged"), filepath.Join(work, "waits")
	compileTagged(t, tagged)
	compileWaits(t, waits)
	const least = 50 // of 640 waits of 2 to 16 ms, on a machine that is busy with others
	truth := newLabTruth(t, work)
	text := liveBlocked(t, "json", tagged, "4", "160", "20")
	c := truth.check("tagged", bytes.NewReader(text))
	t.Logf("tagged: %v", c)
	if c.wrong+c.impossible > 0 || c.right < least {
		t.Errorf("tagged: %v", c)
	}
	truth.chains(liveBlocked(t, "json", waits, "300"))
	if live := liveBlocked(t, "text", tagged, "4", "40", "20"); !bytes.Contains(live, []byte(" unwound=blocked*")) {
		t.Errorf("no stack was read while a thread waited:\n%.2000s", live)
	}
}

// TestRecordBlocked: a report has the stacks that were read while threads waited, until the
// end, too.
func TestRecordBlocked(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "tagged")
	compileTagged(t, program)
	bin, saved, report := ustackBinary(t), filepath.Join(dir, "saved"), filepath.Join(dir, "report.zst")
	args := []string{"record", "-q", "--unwind=blocked", "--duration", "100ms", "--save", saved, "-o", report, "--", program, "3", "1", "1000"} // waits of up to 0.8 s
	if text, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	live, again := savedAndReport(t, bin, saved, report)
	if !bytes.Equal(live, again) || !bytes.Contains(live, []byte(" unwound=blocked*")) {
		t.Errorf("%d and %d bytes\n%s\n%s", len(live), len(again), firstDifference(live, again), live)
	}
}

// TestFutexLiveBlocked: futex --live counts the stacks that were read while threads waited.
func TestFutexLiveBlocked(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "tagged")
	compileTagged(t, program)
	text, err := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--unwind=blocked", "--", program, "4", "100", "20").Output()
	if err != nil || !bytes.Contains(text, []byte("reach application code")) {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestLiveBlockedKept: where the tables need the frame pointer, which is unknown for a
// thread that waits, the kernel's stack has more, and stays.
func TestLiveBlockedKept(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	out := liveBlocked(t, "json", work, "hiccups", "5")
	if n := bytes.Count(out, []byte(`"name":"sys_enter_futex"`)); n < 1000 {
		t.Fatalf("%d calls", n)
	}
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte(`"stack_end":"unknown-register"`)) {
			t.Errorf("the kernel's stack is longer: %s", line)
		}
	}
}
