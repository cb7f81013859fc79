//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// replayed is what replay makes of files.
func replayed(t *testing.T, bin string, args ...string) (out []byte, err error) {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"replay", "-q"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out, err = cmd.Output(); err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return out, err
}

// records leaves out the lines of a report's own.
func records(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("# ustack: ")) {
			out = append(out, line...)
		}
	}
	return out
}

// TestRecordReplayed: a report, replayed anywhere, shows what the trace showed
// on the machine that it is of.
func TestRecordReplayed(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	for name, command := range map[string][]string{
		"storm": {work, "storm", "60"}, "herd": {work, "herd"}, "jit": {work, "jit"},
		"shell": {"sh", "-c", "for i in 1 2 3; do ls / >/dev/null; done"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			saved, report := filepath.Join(dir, "saved"), filepath.Join(dir, "report.zst")
			args := []string{"record", "-q", "-e", "syscalls:sys_*_futex", "-e", "sched:sched_switch", "-e", "syscalls:sys_enter_openat", "--save", saved, "-o", report, "--"}
			if text, err := exec.Command(bin, append(args, command...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			live, got := savedAndReport(t, bin, saved, report)
			again, err := replayed(t, bin, report)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, live) || len(live) == 0 {
				t.Errorf("%d and %d bytes\n%s", len(live), len(got), firstDifference(live, got))
			}
			info, err := os.Stat(report)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v", info.Mode())
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
			for _, field := range []string{"version=1", "kernel=", "arch=", "clock=mono", "clock_offset_ns=", "command=", "end events="} {
				if !bytes.Contains(again, []byte("# ustack: "+field)) {
					t.Errorf("the report does not say %q", field)
				}
			}
		})
	}
}

// savedAndReport returns the records that replay prints of a trace that was saved, with the
// mappings beside it, and of the report that was made of it at the same time.
func savedAndReport(t *testing.T, bin, saved, report string) (live, again []byte) {
	t.Helper()
	live, err := replayed(t, bin, "--maps", filepath.Join(saved, savedSpacesFile), filepath.Join(saved, savedTraceFile))
	if err != nil {
		t.Fatal(err)
	}
	again, err = replayed(t, bin, report)
	if err != nil {
		t.Fatal(err)
	}
	return records(live), records(again)
}

var stamp = regexp.MustCompile(`(?m)^.{16}-\d+ +\[\d+\] \S+ +(\d+)\.(\d{6}): sys_futex`)

// lastTime is the time of the last futex call in a text.
func lastTime(t *testing.T, text []byte) tracefs.Time {
	t.Helper()
	all := stamp.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		t.Fatalf("no calls in %d bytes", len(text))
	}
	m := all[len(all)-1]
	s, _ := strconv.ParseInt(string(m[1]), 10, 64)
	us, _ := strconv.ParseInt(string(m[2]), 10, 64)
	return tracefs.Time(s*1e9 + us*1e3)
}

// TestRecordKilled: what was recorded a second before a kill is there.
func TestRecordKilled(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	rng := rand.New(rand.NewPCG(5, 6))
	rounds, slow := 20, 0
	if capturetest.Brief() {
		rounds = 2
	}
	for round := range rounds {
		report := filepath.Join(t.TempDir(), "report.zst")
		format := []string{"text", "pages"}[round%2]
		cmd := exec.Command(bin, "record", "-q", "--format", format, "-o", report, "--", work, "sleeper", "4")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it records", func() bool { return exists(report + ".partial") })
		time.Sleep(1500*time.Millisecond + time.Duration(rng.IntN(1000))*time.Millisecond)
		killed := space.Monotonic()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		text, err := replayed(t, bin, report+".partial")
		if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("round %d, %s: nothing said of the missing end: %v", round, format, err)
		}
		const most = 3 * tracefs.Time(time.Second)
		if missing := killed - lastTime(t, text); missing > most {
			t.Logf("round %d, %s: %v are missing", round, format, time.Duration(missing))
			slow++
		}
		if out, err := exec.Command(bin, "clean").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	// A second is promised, but on a busy machine the writer has to wait.
	if slow > rounds/2 {
		t.Errorf("in %d of %d rounds, more than 3 s are missing", slow, rounds)
	}
}

// TestRecordFull: a full disk is an error, and the file is good up to there.
func TestRecordFull(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	report := filepath.Join(dir, "report.zst")
	cmd := exec.Command(bin, "record", "-o", report, "--", work, "burst", "30000")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no space left on device") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := replayed(t, bin, report+".partial")
	if err == nil || lastTime(t, text) == 0 {
		t.Errorf("error %v, %d bytes", err, len(text))
	}
	noInstance(t, cmd.Process.Pid)
}

// TestRecordSize: never more than --max-size, and what is left out is counted.
func TestRecordSize(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	for _, drop := range []string{"newest", "stacks"} {
		for _, size := range []int{8 << 10, 30 << 10} {
			report := filepath.Join(t.TempDir(), "report.zst")
			cmd := exec.Command(bin, "record", "-b", "20000", "-o", report, "--no-sched", "--drop", drop, "--max-size", strconv.Itoa(size), "--", work, "burst", "30000")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := os.Stat(report)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > int64(size) {
				t.Errorf("%s: %d bytes, at most %d were allowed", drop, info.Size(), size)
			}
			text, err := replayed(t, bin, report)
			if err != nil {
				t.Fatal(err)
			}
			m := regexp.MustCompile(`# ustack: end events=(\d+) .* left_out_events=(\d+) left_out_stacks=(\d+)`).FindSubmatch(text)
			if m == nil {
				t.Fatalf("no end in %d bytes", len(text))
			}
			all, _ := strconv.Atoi(string(m[1]))
			left, _ := strconv.Atoi(string(m[2]))
			if got := len(stamp.FindAll(text, -1)); got != all-left || got == 0 {
				t.Errorf("%s, %d bytes: %d events, %d of %d left out", drop, size, got, left, all)
			}
			if string(m[3]) == "0" {
				t.Errorf("%s, %d bytes: all stacks are there", drop, size)
			}
		}
	}
}

// TestRecordRing: a long wait makes a report of what was before and after it.
func TestRecordRing(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	dir := t.TempDir()
	report := filepath.Join(dir, "report.zst")
	cmd := exec.Command(bin, "record", "--ring", "--keep", "2s", "--trigger", "futex-wait>150ms", "--after", "100ms", "--cool-down", "0s", "-o", report,
		"--", work, "hiccups", "2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{report, report + ".1"} {
		text, err := replayed(t, bin, name)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !bytes.Contains(text, []byte("# ustack: trigger=futex-wait>150ms (")) || !bytes.Contains(text, []byte(" : path="+work+" build_id=")) {
			t.Errorf("%s:\n%.2000s", name, text)
		}
	}
	if _, err := os.Stat(report + ".2"); err == nil {
		t.Errorf("a third report\n%s", out)
	}
}

// TestRecordAsked: a signal makes a report, also when nothing happens.
func TestRecordAsked(t *testing.T) {
	_, work := workload(t)
	bin := ustackBinary(t)
	report := filepath.Join(t.TempDir(), "report.zst")
	victim := exec.Command(work, "hammer", "0", "0")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "record", "--ring", "--trigger", "signal", "--after", "0s", "-o", report, "-p", strconv.Itoa(victim.Process.Pid))
	stderr := &startLine{begun: make(chan struct{})}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	traces(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, err = os.Stat(report); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Error("no report")
	}
	in.Close()
	_ = victim.Wait()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr.text)
	}
	if text, err := replayed(t, bin, report); err != nil || !bytes.Contains(text, []byte("trigger=signal")) {
		t.Errorf("%v\n%.1000s", err, text)
	}
}
