//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// startRun is a run of starts.c: what its threads began with, by number.
type startRun struct {
	program string
	began   map[int]string
}

// runStarts has a command of ustack's trace the program.
func runStarts(t *testing.T, args ...string) startRun {
	t.Helper()
	r := startRun{filepath.Join(t.TempDir(), "starts"), make(map[int]string)}
	compile(t, r.program, "starts.c")
	cmd := exec.Command(ustackBinary(t), append(args, "--", r.program, "40")...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if number, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			if tid, err := strconv.Atoi(number); err == nil {
				r.began[tid] = name
			}
		}
	}
	if len(r.began) != 8 {
		t.Fatalf("%d threads in %q", len(r.began), text)
	}
	return r
}

// needStarts skips where threads do not begin as they do in glibc on x86-64, whose
// functions have no frames.
func needStarts(t *testing.T) {
	t.Helper()
	needLive(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the functions that threads begin with are read on x86-64 only")
	}
}

// TestLiveStarts: the function that a thread began with is there where the
// unwinder has skipped it, and it is that of this very thread, although all have
// the same frames.
func TestLiveStarts(t *testing.T) {
	capturetest.NeedLong(t)
	needStarts(t)
	out := filepath.Join(t.TempDir(), "out")
	r := runStarts(t, "live", "-q", "--unwind=fp", "--symbols", "--no-lines", "-e", "syscalls:sys_enter_futex", "--format=json", "-o", out)
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	inferred, missed := 0, 0
	frames := make(map[string]map[string]bool) // by thread
	for line := range strings.Lines(string(text)) {
		var event struct {
			PID   int
			Stack []inferFrame
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		n := len(event.Stack)
		if r.began[event.PID] == "" || n < 2 || !strings.HasPrefix(event.Stack[0].Function, "__lll_lock_wa") {
			continue
		}
		f := event.Stack[n-2]
		if !f.Inferred {
			missed++
			continue
		}
		if f.Function != r.began[event.PID] || f.Path != r.program || f.Trust != "inferred" || f.FunctionOffset != "" {
			t.Fatalf("thread %d began with %s: %+v", event.PID, r.began[event.PID], event.Stack)
		}
		inferred++
		key := fmt.Sprint(event.Stack[0].Offset, event.Stack[n-1].Offset)
		if frames[key] == nil {
			frames[key] = make(map[string]bool)
		}
		frames[key][f.Function] = true
	}
	shared := 0
	for _, names := range frames {
		if len(names) == 2 {
			shared++
		}
	}
	t.Logf("%d inferred, %d not; %d of %d kinds of stacks are of both functions", inferred, missed, shared, len(frames))
	if missed > inferred || shared == 0 {
		t.Error("too few")
	}
}

// TestLiveStartsText: the same in text, where stacks that came before are written
// as they were then.
func TestLiveStartsText(t *testing.T) {
	capturetest.NeedLong(t)
	needStarts(t)
	out := filepath.Join(t.TempDir(), "out")
	for _, flag := range []string{"", "--no-infer"} {
		args := []string{"live", "-q", "--unwind=fp", "--symbols", "--no-lines", "-e", "syscalls:sys_enter_futex", "-o", out}
		if flag != "" {
			args = append(args, flag)
		}
		r := runStarts(t, args...)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		record := regexp.MustCompile(`(?m)^ *starts-(\d+) .*<user stack trace>\n((?: =>.*\n)*)`)
		name := regexp.MustCompile(`> (\w+) \(inferred\)`)
		counts := make(map[string]int)
		for _, m := range record.FindAllSubmatch(text, -1) {
			tid, err := strconv.Atoi(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range name.FindAllSubmatch(m[2], -1) {
				if began := r.began[tid]; began != "" {
					if string(f[1]) != began {
						t.Fatalf("thread %d began with %s:\n%s", tid, began, m[0])
					}
					counts[began]++
				}
			}
		}
		t.Logf("%s %v", flag, counts)
		if want := 2; flag == "" && len(counts) != want || flag != "" && len(counts) != 0 {
			t.Errorf("%s: %v", flag, counts)
		}
	}
}

// TestLiveStartsFutex: futex --live keeps stacks apart that differ only in these
// functions, in all its outputs. Text names all places of waits with -v only: without it, those
// with the most time, which can be of one function.
func TestLiveStartsFutex(t *testing.T) {
	capturetest.NeedLong(t)
	needStarts(t)
	for _, format := range []string{"text", "json", "folded", "perfetto", "html"} {
		out := filepath.Join(t.TempDir(), "out")
		program := filepath.Join(t.TempDir(), "starts")
		compile(t, program, "starts.c")
		script := exec.Command("/bin/sh", "-c", `"$0" "$@" >`+out, ustackBinary(t), "futex", "--live", "-q", "--unwind=fp", "--symbols", "--no-lines", "-v", "--format", format, "--", program, "40")
		if text, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", format, err, text)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range []string{"first_of_all", "second_to_none"} {
			if format == "json" {
				function = `"function": "` + function
			} else {
				function += " (inferred)"
			}
			if !strings.Contains(string(text), function) {
				t.Errorf("%s: no %q", format, function)
			}
		}
	}
}
