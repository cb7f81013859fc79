//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/tracefs/instance"
)

// needLive skips a test that cannot trace here, or is not to (USTACK_LIVE=no), and says
// why. Where such tests must run (USTACK_LIVE=must), it fails.
func needLive(t testing.TB) {
	t.Helper()
	why := ""
	switch _, err := instance.Find(""); {
	case os.Getenv("USTACK_LIVE") == "no":
		why = "USTACK_LIVE=no"
	case err != nil:
		why = err.Error()
	case os.Geteuid() != 0:
		why = "not root"
	}
	if why == "" {
		return
	}
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf("cannot trace: %s", why)
	}
	t.Skipf("cannot trace: %s", why)
}

// ustackBinary is a program that is ustack: this test, by another name.
func ustackBinary(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "ustack")
	if err := os.Symlink(self, bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

// compile builds a C program of testdata/live with frame pointers.
func compile(t testing.TB, out, source string, flags ...string) {
	t.Helper()
	needProgram(t, "gcc")
	args := append([]string{"-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1",
		"-pthread", "-o", out, filepath.Join("testdata", "live", source)}, flags...)
	if runtime.GOARCH == "arm64" {
		args = append(args, "-mno-omit-leaf-frame-pointer")
	}
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// liveFrame and liveEvent are lines of live --format=json.
type liveFrame struct {
	Address, Offset, Path, Trust, Reason, Memory string
	BuildID                                      string `json:"build_id"`
}

type liveEvent struct {
	Type, Name, Comm, TS, Args string
	PID                        int
	Stack                      []liveFrame
}

func hexValue(t testing.TB, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return v
}

// liveRun is what a run of live gave.
type liveRun struct {
	events []liveEvent
	stderr string
	code   int
}

// traceLive traces a command and returns the events that have a stack. The
// instance must be gone afterwards.
func traceLive(t testing.TB, flags []string, command ...string) liveRun {
	t.Helper()
	return traceLiveUntil(t, "", flags, command...)
}

// traceLiveUntil does the same with a command that ends when its input does: that
// is when the output has a word, or after much time.
func traceLiveUntil(t testing.TB, word string, flags []string, command ...string) liveRun {
	t.Helper()
	args := append([]string{"live", "--format=json"}, flags...)
	args = append(append(args, "--"), command...)
	cmd := exec.Command(ustackBinary(t), args...)
	var stderr bytes.Buffer
	out := &awaited{word: []byte(word)}
	cmd.Stdout, cmd.Stderr = out, &stderr
	if word != "" {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out.seen = sync.OnceFunc(func() { stdin.Close() })
		defer time.AfterFunc(time.Minute, out.seen).Stop()
	}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r := liveRun{stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	noInstance(t, cmd.ProcessState.Pid())
	lines := bufio.NewScanner(&out.text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e liveEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		if len(e.Stack) > 0 {
			r.events = append(r.events, e)
		}
	}
	if len(r.events) == 0 && r.code == 0 && !slices.Contains(command, "status") {
		t.Fatalf("no stacks\n%s", r.stderr)
	}
	return r
}

// awaited is an output that waits for a word, or for it to come several times.
type awaited struct {
	text  bytes.Buffer
	word  []byte
	times int
	seen  func() // nil if not waited for
}

func (a *awaited) Write(b []byte) (int, error) {
	a.text.Write(b)
	if a.seen != nil && bytes.Count(a.text.Bytes(), a.word) >= max(a.times, 1) {
		a.seen()
	}
	return len(b), nil
}

// traces waits until a command of ours, which has said how it traces, has switched
// tracing on. (Before, in a new instance, it is on, too.)
func traces(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	root, err := instance.Find("")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root.Path(), "instances", "ustack-"+strconv.Itoa(cmd.Process.Pid), "tracing_on")
	eventually(t, "tracing is on", func() bool {
		on, err := os.ReadFile(name)
		return err == nil && string(on) == "1\n"
	})
}

// noInstance fails if a process has left an instance.
func noInstance(t testing.TB, pid int) {
	t.Helper()
	if left := instancesOf(t, pid); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// instancesOf lists the instances of a process.
func instancesOf(t testing.TB, pid int) []string {
	t.Helper()
	root, err := instance.Find("")
	if err != nil {
		t.Fatal(err)
	}
	names, err := root.Instances()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return name != "ustack-"+strconv.Itoa(pid) && !strings.HasPrefix(name, "ustack-"+strconv.Itoa(pid)+".")
	})
}
