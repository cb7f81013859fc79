//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

var nodeTime = flag.String("node-ms", "3000", "for how many milliseconds TestLiveUnwindsNode runs its program")

// nodeChain are the functions of chain.js that a thread is in while it waits, the innermost
// first.
var nodeChain = []string{"six", "five", "four", "three", "two", "one"}

// TestLiveUnwindsNode: waits of threads of node have exactly the functions that the program
// has called, interpreted or compiled, in their order, and the stacks go on to the root.
func TestLiveUnwindsNode(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("code that programs make is followed on x86-64 only")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	script, err := filepath.Abs(filepath.Join("testdata", "live", "chain.js"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	live := exec.Command(ustackBinary(t), "live", "--unwind=copy", "-b", "8192", "--symbols", "--format=json", "-o", out, "--",
		"node", "--perf-basic-prof", "--no-turbo-inlining", script, *nodeTime)
	live.Dir = dir // node logs there, and has its map in /tmp
	var words bytes.Buffer
	live.Stderr = &words
	pid, err := live.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, words.Bytes())
	}
	if name := "/tmp/perf-" + strings.TrimSpace(string(pid)) + ".map"; filepath.Dir(name) == "/tmp" {
		_ = os.Remove(name)
	}
	t.Logf("%s", words.Bytes())
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	checkNode(t, text)
}

// checkNode checks the output of live --format=json.
func checkNode(t *testing.T, text []byte) {
	t.Helper()
	var waits, roots, compiled, whole int
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			End   string `json:"stack_end"`
			Stack []unwoundFrame
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		names, ok := nodeFrames(e.Stack)
		if !ok {
			continue
		}
		waits++
		if e.End == "root" {
			roots++
		}
		n := 0
		for i, name := range names[:min(len(names), len(nodeChain))] {
			if name == "" { // the interpreter, or code that was not in the map for sure
				continue
			}
			n++
			if name != nodeChain[i] {
				t.Fatalf("frame %d is %s in %q, %q was called", i, name, names, nodeChain)
			}
		}
		if e.End == "root" && len(names) <= len(nodeChain) {
			t.Fatalf("a whole stack has %q, %q was called", names, nodeChain)
		}
		if n > 0 {
			compiled++
		}
		if n > 0 && e.End == "root" {
			whole++
		}
	}
	t.Logf("%d waits, %d to the root; %d with compiled functions, %d of them to the root", waits, roots, compiled, whole)
	if whole == 0 {
		t.Error("no compiled function in a whole stack")
	}
}

// nodeFrames returns the JavaScript functions of a stack of Atomics.wait, the innermost first;
// "" is for those that the interpreter runs, and without a name.
func nodeFrames(stack []unwoundFrame) (names []string, ok bool) {
	in := slices.IndexFunc(stack, func(f unwoundFrame) bool { return strings.Contains(f.Function, "Builtin_AtomicsWait") })
	if in < 0 {
		return nil, false
	}
	for _, f := range stack[in:] {
		switch {
		case f.Path == "":
			name := strings.TrimLeft(strings.TrimPrefix(f.Function, "JS:"), "*^+~")
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
		case strings.HasPrefix(f.Function, "Builtins_InterpreterEntryTrampoline"), strings.HasPrefix(f.Function, "Builtins_BaselineOrInterpreter"):
			names = append(names, "")
		case strings.HasPrefix(f.Function, "Builtins_JSEntry"):
			return names, true
		}
	}
	return names, true
}
