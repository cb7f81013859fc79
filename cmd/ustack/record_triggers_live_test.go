//go:build linux && (amd64 || arm64) && !device

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ustack/tracefs/capturetest"
)

// reportsOf returns the reports of a ring, and fails if one has not the trigger.
func reportsOf(t *testing.T, bin, report, trigger string) (names []string) {
	t.Helper()
	names, err := filepath.Glob(report + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := replayed(t, bin, name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("# ustack: trigger="+trigger)) {
			t.Errorf("%s has not the trigger %s: %.600s", name, trigger, text)
		}
	}
	return names
}

// TestRecordUnusualWait: a wait that is long for its futex makes a report, and waits that are as
// long as ever at another one make none.
func TestRecordUnusualWait(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "usual")
	compile(t, program, "usual.c")
	for _, test := range []struct {
		name, pause string
		args        []string
	}{
		{name: "usual"},
		{name: "unusual", pause: "0"},
		{name: "sums", pause: "11", args: []string{"--source=bpf", "--min-wait=1ms"}}, // they come each 10 s
	} {
		t.Run(test.name, func(t *testing.T) {
			command := []string{program}
			if test.pause != "" {
				command = append(command, test.pause)
			}
			if test.args != nil {
				needBPF(t)
			}
			for range 3 {
				least, most := recordUsual(t, filepath.Join(t.TempDir(), "report.zst"), test.args, command, test.pause != "")
				if test.pause != "" || 10*least[0] >= most[0] && 10*least[1] >= most[1] {
					return
				}
			}
			t.Skip("the machine is too busy for waits that are all as long as usual")
		})
	}
}

// recordUsual records a run of usual.c, and returns its shortest and its longest waits.
func recordUsual(t *testing.T, report string, args, command []string, want bool) (least, most [2]int64) {
	t.Helper()
	bin := ustackBinary(t)
	cmd := exec.Command(bin, append(append([]string{"record", "--ring", "--trigger", "futex-wait>10p99", "--after", "0s", "--cool-down", "0s", "-o", report}, args...), append([]string{"--"}, command...)...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if _, err := fmt.Sscan(string(out), &least[0], &most[0], &least[1], &most[1]); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := reportsOf(t, bin, report, "futex-wait>10 p99 (")
	t.Logf("waits of %d to %d and %d to %d ns: %d reports", least[0], most[0], least[1], most[1], len(names))
	switch usual := 10*least[0] >= most[0] && 10*least[1] >= most[1]; {
	case want && len(names) == 0, !want && usual && len(names) > 0:
		t.Errorf("%d reports\n%s", len(names), &said)
	case want && usual && len(names) > 1:
		t.Errorf("%d reports of one wait\n%s", len(names), &said)
	}
	return least, most
}

// TestRecordDeadlock: threads that wait for each other in a circle make one report, also if they
// got their locks without a call; a thread that waits for one that sleeps makes none.
func TestRecordDeadlock(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	workload := lockWorkload(t)
	for mode, want := range map[string]int{"abba": 1, "abba-seen": 1, "stuck-join": 0} {
		t.Run(mode, func(t *testing.T) {
			bin, report := ustackBinary(t), filepath.Join(t.TempDir(), "report.zst")
			victim := exec.Command(workload, mode)
			in, err := victim.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bin, "record", "--ring", "--trigger", "deadlock", "--after", "0s", "--cool-down", "0s", "-o", report, "-p", strconv.Itoa(victim.Process.Pid))
			said := &startLine{begun: make(chan struct{})}
			cmd.Stderr = said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-said.begun
			traces(t, cmd)
			if _, err := io.WriteString(in, "go\n"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second) // it looks each second, and one deadlock has one report
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &said.text)
			}
			_ = victim.Process.Kill()
			_ = victim.Wait()
			if names := reportsOf(t, bin, report, "deadlock ["); len(names) != want {
				t.Errorf("%d reports, want %d\n%s", len(names), want, &said.text)
			}
		})
	}
}

// TestRecordLoss: records that are lost make a report, and none without them.
func TestRecordLoss(t *testing.T) {
	_, work := workload(t)
	bin := ustackBinary(t)
	for _, test := range []struct{ kb, calls, want int }{{20000, 3000, 0}, {8, 100000, 1}} {
		report := filepath.Join(t.TempDir(), "report.zst")
		out, err := exec.Command(bin, "record", "--ring", "--trigger", "loss", "--after", "0s", "-b", strconv.Itoa(test.kb), "-o", report, "--", work, "burst", strconv.Itoa(test.calls)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if names := reportsOf(t, bin, report, "loss"); len(names) != test.want {
			t.Errorf("%d KB: %d reports\n%s", test.kb, len(names), out)
		}
	}
}

// TestRecordLossOfSums: with --source=bpf, a ring buffer that was full makes a report, and none is
// made before that: to begin while a thread waits is no loss.
func TestRecordLossOfSums(t *testing.T) {
	capturetest.NeedLong(t)
	needBPF(t)
	dir := t.TempDir()
	program, report, bin := filepath.Join(dir, "timeouts"), filepath.Join(dir, "report.zst"), ustackBinary(t)
	compile(t, program, "timeouts.c", "-pthread")
	victim := exec.Command(program)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "record", "--ring", "--source=bpf", "--min-wait=100us", "--trigger", "loss", "--after", "0s", "--cool-down", "1h", "-o", report, "-p", strconv.Itoa(victim.Process.Pid))
	said := &startLine{begun: make(chan struct{})}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-said.begun
	const sums, patience = 10 * time.Second, 2 * time.Second
	time.Sleep(2*sums + patience) // the wait that was there has ended, and sums came after it
	before := reportsOf(t, bin, report, "loss")
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} { // so that it reads nothing for a while
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
	}
	time.Sleep(sums)
	if err := errors.Join(cmd.Process.Signal(syscall.SIGINT), cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, &said.text)
	}
	_ = in.Close()
	_ = victim.Wait()
	if names := reportsOf(t, bin, report, "loss"); len(before) != 0 || len(names) != 1 {
		t.Errorf("%d reports, and %d after a loss, want 0 and 1\n%s", len(before), len(names), &said.text)
	}
}
