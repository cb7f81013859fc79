//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/tracefs/capturetest"
)

// unwoundEvent is a line of live --format=json.
type unwoundEvent struct {
	Name, Args string
	Stack      []unwoundFrame
	End        string `json:"stack_end"`
}

type unwoundFrame struct{ Path, Reason, Function, How string }

func (f *unwoundFrame) application() bool { return f.Path != "" && filemap.CLibrary(f.Path) == "" }

// unwoundWaits are the stacks of futex calls that wait.
func unwoundWaits(t *testing.T, text []byte) (list []unwoundEvent) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e unwoundEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		for _, op := range []string{"op: 0x80,", "op: 0x89,", "op: 0x189,", "op: 0x109,", "op: 0x0,"} {
			if strings.Contains(e.Args, op) {
				list = append(list, e)
				break
			}
		}
	}
	return list
}

// liveUnwound runs a program under live --unwind=copy, and holds what replay makes of
// what was saved against it.
func liveUnwound(t *testing.T, command ...string) []unwoundEvent {
	t.Helper()
	dir := t.TempDir()
	saved, out := filepath.Join(dir, "saved"), filepath.Join(dir, "out")
	args := []string{"live", "-q", "--unwind=copy", "-b", "8192", "--symbols", "--format", "json", "-o", out, "--"}
	if text, err := exec.Command(ustackBinary(t), append(args, command...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "text"} { // without --symbols: code of a JIT compiler has its names only now
		_ = os.RemoveAll(saved)
		args := []string{"live", "-q", "--unwind=copy", "-b", "8192", "--format", format, "--save", saved, "-o", out, "--"}
		if text, err := exec.Command(ustackBinary(t), append(args, command...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		live, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(live, []byte("cfi")) {
			t.Errorf("%s: no frame was found by tables", format)
		}
		sameReplayed(t, live, saved, format)
	}
	return unwoundWaits(t, text)
}

// checkReach checks how far stacks go: 99 of 100 to application code, 95 to the root.
func checkReach(t *testing.T, list []unwoundEvent) {
	t.Helper()
	app, root := 0, 0
	for _, e := range list {
		for i := range e.Stack {
			if e.Stack[i].application() {
				app++
				break
			}
		}
		if e.End == "root" {
			root++
		}
	}
	t.Logf("%d waits: %d reach application code, %d the root", len(list), app, root)
	if n := len(list); n < 100 || app*100 < 99*n || root*100 < 95*n {
		t.Errorf("of %d waits, %d reach application code, %d the root", n, app, root)
	}
}

// compileWaits compiles a program without frame pointers.
func compileWaits(t *testing.T, program string) {
	t.Helper()
	needProgram(t, "g++")
	compiler := exec.Command("g++", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-rdynamic", "-pthread", "-Wl,--build-id=sha1",
		"-o", program, filepath.Join("testdata", "live", "waits.cc"))
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestFutexLiveUnwinds: futex --live has whole stacks of waits, unless told otherwise.
func TestFutexLiveUnwinds(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "waits")
	compileWaits(t, program)
	for _, test := range []struct {
		flag  string
		whole bool
	}{{"-q", true}, {"--unwind=fp", false}} {
		text, err := exec.Command(ustackBinary(t), "futex", "--live", test.flag, "-b", "8192", "--json", "--", program, "200").Output()
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Stacks struct{ Waits, Application, Root int }
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		s := report.Stacks
		if s.Waits < 100 || s.Application*100 >= 99*s.Waits != test.whole || s.Root*100 >= 95*s.Waits != test.whole {
			t.Errorf("%s: %+v", test.flag, s)
		}
	}
}

// TestLiveUnwindsCompiled: a program without frame pointers, whose functions can call
// each other in one way only.
func TestLiveUnwindsCompiled(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "waits")
	compileWaits(t, program)
	list := liveUnwound(t, program, "300")
	checkReach(t, list)
	callers := map[string]string{"hold_lock": "deep", "wait_turn": "deep", "deep": "deep work"}
	chains := 0
	for _, e := range list {
		var own []string
		for i := range e.Stack {
			if f := &e.Stack[i]; f.Path == program {
				name, _, _ := strings.Cut(f.Function, "(")
				own = append(own, name)
			}
		}
		for i := range len(own) - 1 {
			if may, ok := callers[own[i]]; ok && !strings.Contains(may, own[i+1]) {
				t.Fatalf("%s was called by %s? %v", own[i], own[i+1], own)
			}
		}
		if len(own) > 2 && (own[0] == "hold_lock" || own[0] == "wait_turn") {
			chains++
		}
		if len(own) == 0 && e.End == "root" {
			t.Errorf("no function of the program: %+v", e)
		}
	}
	if chains*10 < len(list)*9 {
		t.Errorf("only %d of %d waits have the functions that wait", chains, len(list))
	}
}

// pythonThreads contend for the interpreter's lock, and for another.
const pythonThreads = `
import threading
lock = threading.Lock()
def inner(k):
    s = 0
    for i in range(k): s += i * i
    with lock: return s
def outer():
    for _ in range(300): inner(3000)
threads = [threading.Thread(target=outer) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
`

// TestLiveUnwindsPython: waits for the interpreter's lock.
func TestLiveUnwindsPython(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "python3")
	script := filepath.Join(t.TempDir(), "threads.py")
	if err := os.WriteFile(script, []byte(pythonThreads), 0o600); err != nil {
		t.Fatal(err)
	}
	list := liveUnwound(t, "python3", script)
	checkReach(t, list)
	python, eval := 0, 0
	for _, e := range list {
		for i := range e.Stack {
			if f := &e.Stack[i]; strings.Contains(f.Path, "python") {
				python++
				break
			}
		}
		for i := range e.Stack {
			if strings.Contains(e.Stack[i].Function, "_PyEval_EvalFrameDefault") || strings.Contains(e.Stack[i].Function, "PyEval_") {
				eval++
				break
			}
		}
	}
	if python*100 < 99*len(list) || eval*10 < 8*len(list) {
		t.Errorf("of %d waits, %d are in Python, %d in its interpreter", len(list), python, eval)
	}
}

// TestRecordUnwound: a report, and what was saved of the same run, have the stacks that
// live has unwound.
func TestRecordUnwound(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "python3")
	bin, dir := ustackBinary(t), t.TempDir()
	script, saved, report := filepath.Join(dir, "threads.py"), filepath.Join(dir, "saved"), filepath.Join(dir, "report.zst")
	if err := os.WriteFile(script, []byte(pythonThreads), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"record", "-q", "--unwind=copy", "-b", "8192", "--save", saved, "-o", report, "--", "python3", script}
	if text, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	live, again := savedAndReport(t, bin, saved, report)
	if !bytes.Equal(live, again) || !bytes.Contains(live, []byte(" end=root\n")) {
		t.Errorf("%d and %d bytes\n%s", len(live), len(again), firstDifference(live, again))
	}
}
