//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// recordPages records a command as pages and returns the report, and what record printed.
func recordPages(t testing.TB, flags []string, command ...string) (report, stderr string) {
	t.Helper()
	report = filepath.Join(t.TempDir(), "report.pages")
	args := append([]string{"record", "--format=pages", "-o", report}, flags...)
	cmd := exec.Command(ustackBinary(t), append(append(args, "--"), command...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	noInstance(t, cmd.ProcessState.Pid())
	return report, string(out)
}

// replayedEvents are the events of a trace that have a stack.
func replayedEvents(t testing.TB, report string) (events []liveEvent) {
	t.Helper()
	out, err := exec.Command(ustackBinary(t), "replay", "-q", "--format=json", report).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e liveEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		if len(e.Stack) > 0 {
			events = append(events, e)
		}
	}
	return events
}

// TestRecordPagesTruth: each frame of a report of pages is in the right file and function,
// of processes that live for 2 ms.
func TestRecordPagesTruth(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	processes := 400
	if capturetest.Brief() {
		processes = 100
	}
	report, stderr := recordPages(t, []string{"--no-sched"}, work, "storm", fmt.Sprint(processes))
	n := tr.count(withFiles(replayedEvents(t, report), lostMappings(stderr)), append(slices.Clone(waits), "main")...)
	if !lostMappings(stderr) && n != 2*processes {
		t.Errorf("%d stacks, want %d\n%s", n, 2*processes, stderr)
	}
	if tr.nameless*1000 > tr.frames {
		t.Errorf("%d frames without a name, %d with", tr.nameless, tr.frames)
	}
	info, err := os.Stat(report)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || exists(report+".partial") {
		t.Errorf("mode %v", info.Mode())
	}
	testPagesRead(t, report)
}

// lostMappings reports whether record says that it has lost what was mapped, as it may on a
// busy machine: frames have no file or a late one then, and threads no name.
func lostMappings(stderr string) bool {
	return strings.Contains(stderr, "mapping records") || strings.Contains(stderr, "records of munmap")
}

// withFiles leaves out events with frames that have no file, if some may have none.
func withFiles(events []liveEvent, some bool) []liveEvent {
	return slices.DeleteFunc(events, func(e liveEvent) bool {
		return some && slices.ContainsFunc(e.Stack, func(f liveFrame) bool { return f.Path == "" })
	})
}

// testPagesRead checks that each command reads the report.
func testPagesRead(t *testing.T, report string) {
	t.Helper()
	bin, dir := ustackBinary(t), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(bin, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	text := run("replay", "-q", report)
	for _, field := range []string{"version=1", "trace=", "kernel=", "arch=", "clock=mono", "clock_offset_ns=", "command=", "end events="} {
		if !strings.Contains(text, "# ustack: "+field) {
			t.Errorf("the report does not say %q", field)
		}
	}
	if out := run("futex", "--symbols=false", report); !strings.Contains(out, "Stacks: of ") {
		t.Errorf("futex prints\n%s", out)
	}
	run("needs", report)
	run("open", report)
	redacted, merged := filepath.Join(dir, "redacted.zst"), filepath.Join(dir, "merged.zst")
	run("redact", "-q", "-o", redacted, report)
	run("check-redaction", redacted)
	if out, err := exec.Command(bin, "check-redaction", report).CombinedOutput(); err == nil {
		t.Errorf("a report of pages passes as redacted\n%s", out)
	}
	run("merge", "-q", "-o", merged, report, redacted)
	if out := run("replay", "-q", merged); !strings.Contains(out, "# ustack: device1.kernel=") {
		t.Errorf("merged:\n%.1000s", out)
	}
	inbox, done := filepath.Join(dir, "inbox"), filepath.Join(dir, "done")
	if err := os.Mkdir(inbox, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"whole": len(data), "cut": len(data) / 2} {
		if err := os.WriteFile(filepath.Join(inbox, name), data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("watch", "--once", "--settle=1ms", "--give-up=2ms", "--out", done, inbox)
	if !exists(filepath.Join(done, "whole.futex")) || exists(filepath.Join(done, "cut.futex")) {
		t.Errorf("watch has not told a whole report from one that was cut")
	}
}

// TestRecordPagesAsText: a report of pages and one of text, of the same calls, have the
// same events and frames.
func TestRecordPagesAsText(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin, dir := ustackBinary(t), t.TempDir()
	victim := exec.Command(work, "hammer", "0.02", "3")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	formats := []string{"text", "pages"}
	var recorders []*exec.Cmd
	for _, format := range formats {
		cmd := exec.Command(bin, "record", "--no-sched", "--unwind=fp", "--format", format, "-b", "32768", "-o", filepath.Join(dir, format), "-p", strconv.Itoa(victim.Process.Pid))
		stderr := &startLine{begun: make(chan struct{})}
		cmd.Stderr = stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-stderr.begun
		traces(t, cmd)
		recorders = append(recorders, cmd)
	}
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if err := victim.Wait(); err != nil {
		t.Fatal(err)
	}
	type call struct{ comm, what string }
	var calls [2]map[int][]call
	for i, cmd := range recorders {
		err := cmd.Wait()
		stderr := cmd.Stderr.(*startLine).text.String()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		if lostMappings(stderr) {
			t.Skipf("the machine is too busy to follow what is mapped:\n%s", stderr)
		}
		calls[i] = make(map[int][]call)
		for _, e := range replayedEvents(t, filepath.Join(dir, formats[i])) {
			for k := range e.Stack {
				e.Stack[k].Address = "" // which text has of frames without a file only
				if e.Stack[k].Trust == "verified" {
					e.Stack[k].Trust = "announced" // by the report
				}
			}
			calls[i][e.PID] = append(calls[i][e.PID], call{e.Comm, fmt.Sprintf("%s %s %+v", e.Name, e.Args, e.Stack)})
		}
	}
	if len(calls[0]) < 3 {
		t.Errorf("%d threads", len(calls[0]))
	}
	for tid, text := range calls[0] {
		pages := calls[1][tid]
		if len(text) != len(pages) {
			t.Errorf("thread %d: %d events of text, %d of pages", tid, len(text), len(pages))
		}
		for i := range min(len(text), len(pages)) {
			const unknown = "<...>" // a thread that had ended when its name was asked for
			if text[i].what != pages[i].what || text[i].comm != pages[i].comm && text[i].comm != unknown && pages[i].comm != unknown {
				t.Errorf("thread %d, event %d: %v, as text %v", tid, i, pages[i], text[i])
				break
			}
		}
	}
}

// TestRecordPagesSize: a report of pages is never larger than allowed, and what is left out
// is counted.
func TestRecordPagesSize(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	const most = 300 << 10
	report, stderr := recordPages(t, []string{"--max-size=300K", "-b", "20000", "-e", "syscalls:sys_*"}, work, "burst", "60000")
	info, err := os.Stat(report)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`left out (\d+) events`).FindStringSubmatch(stderr)
	if info.Size() > most || m == nil {
		t.Errorf("%d bytes, %d are allowed\n%s", info.Size(), most, stderr)
	}
	if text, err := replayed(t, ustackBinary(t), report); err != nil || m != nil && !strings.Contains(string(text), " left_out_events="+m[1]+" ") {
		t.Errorf("%v: the end of %d bytes does not say what is left out", err, len(text))
	}
}
