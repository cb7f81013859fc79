//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// inferFrame is a frame of replay's JSON.
type inferFrame struct {
	Path           string
	Function       string
	Offset         string
	FunctionOffset string `json:"function_offset"`
	Trust          string
	Inferred       bool
}

// place is a frame as gdb calls it: "take_direct+17".
func (f *inferFrame) place() string {
	at, err := strconv.ParseUint(strings.TrimPrefix(f.FunctionOffset, "0x"), 16, 64)
	if err != nil {
		return f.Function
	}
	return fmt.Sprintf("%s+%d", f.Function, at)
}

// unproven are the functions of shapes.c that nothing proves: they are called, or
// call, by a pointer, or in the place of another one that has jumped to them.
var unproven = map[string]bool{"take_by_pointer": true, "take_behind": true, "take_compare": true}

// TestLiveInfer: of the functions that the kernel's unwinder skips, because they
// wait in a C library without frame pointers, nearly all are inferred, and none
// is that is not on the stack by gdb, which unwinds by call frame information.
func TestLiveInfer(t *testing.T) {
	needLive(t)
	capturetest.NeedLong(t)
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("no gdb, which is the truth here")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("C libraries of this machine have frame pointers")
	}
	for _, level := range []string{"-O1", "-O2", "-O3"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program := filepath.Join(dir, "shapes")
			compile(t, program, "shapes.c", level, "-foptimize-sibling-calls", "-g")
			truth := unwound(t, gdb, program)
			c := inferCount{missing: make(map[string]int), alone: make(map[string]int)}
			for _, stack := range inferredStacks(t, program) {
				c.add(t, stack, truth, program)
			}
			c.check(t)
		})
	}
}

// unwound are the stacks of a program's futex calls, innermost frame first.
func unwound(t *testing.T, gdb, program string) (stacks [][]string) {
	t.Helper()
	script, err := filepath.Abs("testdata/live/unwind.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gdb, "-batch", "-nx", "-x", script, "--args", program, "8")
	cmd.Dir = filepath.Dir(program)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	out, err := os.ReadFile(filepath.Join(cmd.Dir, "unwound.txt"))
	if err != nil || len(out) == 0 {
		t.Skipf("gdb has no Python, or cannot run programs here: %v\n%s", err, text)
	}
	for line := range strings.Lines(string(out)) {
		stacks = append(stacks, strings.Fields(line))
	}
	return stacks
}

// inferredStacks traces the program.
func inferredStacks(t *testing.T, program string) (stacks [][]inferFrame) {
	t.Helper()
	out := filepath.Join(filepath.Dir(program), "out")
	args := []string{"live", "-q", "--unwind=fp", "--symbols", "--no-lines", "-e", "syscalls:sys_enter_futex", "--format=json", "-o", out, "--", program, "20"}
	if text, err := exec.Command(ustackBinary(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var record struct{ Stack []inferFrame }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if len(record.Stack) > 0 {
			stacks = append(stacks, record.Stack)
		}
	}
	return stacks
}

// inferCount sums up what became of the stacks.
type inferCount struct {
	seen, broken, unknown           int // the kernel has all; has nothing of the program; gdb has no such stack
	inferred, missed, beyond, wrong int
	missing                         map[string]int
	alone                           map[string]int // inferred, and never seen by gdb
}

// add compares a stack with the truth.
func (c *inferCount) add(t *testing.T, stack []inferFrame, truth [][]string, program string) {
	t.Helper()
	var own, inferred []string // of the program; inferred, and what it called from
	for i := range stack {
		f := &stack[i]
		if f.Path != program {
			continue
		}
		if f.Inferred {
			if i+1 == len(stack) || f.Trust != "inferred" || f.FunctionOffset != "" {
				t.Errorf("%+v", stack)
				continue
			}
			inferred = append(inferred, f.Function+" < "+stack[i+1].place())
			continue
		}
		own = append(own, f.place())
	}
	if len(own) == 0 {
		c.broken++
		return
	}
	match, wrong, skipped := 0, 0, ""
	for _, whole := range truth {
		at := slices.Index(whole, own[0])
		if at < 0 || offsetOf(whole[0]) != offsetOf(stack[0].place()) || !within(own, whole[at:]) {
			continue
		}
		match++
		if skipped = ""; at > 0 && inProgram(whole[at-1]) {
			skipped = functionOf(whole[at-1])
		}
		for _, pair := range inferred {
			if !hasPair(whole, pair) {
				wrong++
			}
		}
	}
	switch {
	case match == 0:
		c.unknown++
		for _, pair := range inferred {
			if !slices.ContainsFunc(truth, func(whole []string) bool { return hasPair(whole, pair) }) {
				c.alone[pair]++
			}
		}
	case wrong > 0:
		c.wrong++
		t.Errorf("not on the stack: %v of %+v", inferred, stack)
	case len(inferred) > 0:
		c.inferred++
	case skipped == "":
		c.seen++
	case unproven[skipped]:
		c.beyond++
	default:
		c.missed++
		c.missing[skipped+" < "+own[0]]++
	}
}

// check fails if too few are inferred, or one is that should not be.
func (c *inferCount) check(t *testing.T) {
	t.Helper()
	t.Logf("skipped %d: inferred %d, missed %d %v, not to be proven %d; wrong %d", c.inferred+c.missed+c.beyond, c.inferred, c.missed, c.missing, c.beyond, c.wrong)
	t.Logf("nothing skipped %d, nothing of the program left %d, not seen by gdb %d, of them with functions never seen so %v", c.seen, c.broken, c.unknown, c.alone)
	if c.inferred == 0 || c.missed*20 > c.inferred {
		t.Errorf("%d are inferred, %d are not", c.inferred, c.missed)
	}
	if c.unknown*20 > c.inferred {
		t.Errorf("%d stacks are unknown to gdb", c.unknown)
	}
}

// hasPair reports whether a stack has "callee < caller+17".
func hasPair(whole []string, pair string) bool {
	for i := 1; i < len(whole); i++ {
		if functionOf(whole[i-1])+" < "+whole[i] == pair {
			return true
		}
	}
	return false
}

func functionOf(place string) string {
	name, _, _ := strings.Cut(place, "+")
	return name
}

func offsetOf(place string) string {
	_, at, _ := strings.Cut(place, "+")
	return at
}

// inProgram reports whether a place is in shapes.c.
func inProgram(place string) bool {
	switch name := functionOf(place); name {
	case "wrap", "jump", "vanish", "through_pointer", "sorts", "round_of_all", "thread", "main", "nap":
		return true
	default:
		return strings.HasPrefix(name, "take_")
	}
}

// within reports whether places are those of a stack, in order.
func within(places, whole []string) bool {
	for _, p := range places {
		at := slices.Index(whole, p)
		if at < 0 {
			return false
		}
		whole = whole[at+1:]
	}
	return true
}
