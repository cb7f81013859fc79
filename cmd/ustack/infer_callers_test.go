//go:build linux

package main

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestLiveInferCallers: of the functions that call the C library to wait for a lock,
// or to let one go, and that the kernel's unwinder leaves out, the part of those
// that are inferred, in all our workloads. perf takes the same stacks at the same
// time, with what is on the stack, and unwinds them by call frame information: no
// function is inferred that is not there, at any level of any stack.
func TestLiveInferCallers(t *testing.T) {
	needLive(t)
	if testing.Short() {
		t.Skip("takes a while")
	}
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("no perf, which is the truth here")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("C libraries of this machine have frame pointers")
	}
	dir := t.TempDir()
	ustack := ustackBinary(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	compile(t, in("work"), "work.c", "-ldl")
	compile(t, in("locks"), "locks.c", "-ldl")
	compile(t, in("shapes"), "shapes.c", "-foptimize-sibling-calls")
	compile(t, in("workload"), "../../../../render/futex/testdata/workload.c")
	compileCC(t, in("shop"), "locks.cc")
	var all callers
	for _, program := range [][]string{
		{"work", "herds", "20"}, {"locks"}, {"shop", "40"},
		{"workload", "mutex"}, {"workload", "pi"}, {"workload", "rwlock"}, {"workload", "cond"}, {"workload", "sem"}, {"workload", "join"},
		{"shapes", "10"},
	} {
		r := traceTwice(t, perf, ustack, "dwarf,32768", append([]string{in(program[0])}, program[1:]...)...)
		c := countCallers(t, r.perfSays(t), r.ustackSays(t))
		t.Logf("%v: %v", program, &c)
		all.add(&c)
	}
	t.Logf("all: %v", &all)
}

// compileCC builds a C++ program of testdata/live with frame pointers.
func compileCC(t testing.TB, out, source string) {
	t.Helper()
	gcc, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no C++ compiler")
	}
	args := []string{"-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1", "-pthread", "-o", out, filepath.Join("testdata", "live", source)}
	if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("g++ %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// callers sums up what became of those who called the C library.
type callers struct {
	stacks   int // of all events
	seen     int // the kernel has the caller
	inferred int
	missed   int // the kernel has who called the caller, and not the caller
	broken   int // the kernel has nobody behind the caller
	unknown  int // perf does not know the caller
	wrong    int
	frames   int // inferred ones, of callers or not
	why      map[string]int
}

func (c *callers) String() string {
	why := ""
	for _, k := range slices.Sorted(maps.Keys(c.why)) {
		why += fmt.Sprintf("\n\t%6d %s", c.why[k], k)
	}
	return fmt.Sprintf("%d stacks: caller left out in %d, of them inferred %d (%.1f %%); seen %d, nothing behind it %d, unknown %d; %d frames inferred, %d wrong%s",
		c.stacks, c.inferred+c.missed, c.inferred, 100*float64(c.inferred)/float64(max(1, c.inferred+c.missed)), c.seen, c.broken, c.unknown, c.frames, c.wrong, why)
}

func (c *callers) add(o *callers) {
	c.stacks += o.stacks
	c.seen += o.seen
	c.inferred += o.inferred
	c.missed += o.missed
	c.broken += o.broken
	c.unknown += o.unknown
	c.frames += o.frames
	c.wrong += o.wrong
}

// countCallers compares the stacks of all events.
func countCallers(t *testing.T, truth, ours *perfStacks) callers {
	t.Helper()
	c := callers{why: make(map[string]int)}
	for tid, list := range truth.byTID {
		if len(list) != len(ours.byTID[tid]) {
			t.Errorf("of thread %d perf has %d events, ustack %d", tid, len(list), len(ours.byTID[tid]))
			continue
		}
		for i, k := range list {
			c.stack(t, truth.stacks[k], ours.stacks[ours.byTID[tid][i]])
		}
	}
	return c
}

// ofLibraries reports whether a frame is of the libraries that come to wait.
func (f *perfNamed) ofLibraries() bool {
	name := filepath.Base(f.path)
	return strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libstdc++.so")
}

// stack compares one.
func (c *callers) stack(t *testing.T, truth, our []perfNamed) {
	c.stacks++
	c.check(t, truth, our)
	if len(truth) == 0 || !truth[0].ofLibraries() {
		c.stacks--
		return // a system call of the program's own
	}
	at := slices.IndexFunc(truth, func(f perfNamed) bool { return !f.ofLibraries() })
	if at < 0 || at+1 >= len(truth) {
		c.unknown++
		return
	}
	caller, next := &truth[at], &truth[at+1]
	pair := fmt.Sprintf("%s < %s < %s", truth[0].function, caller.function, next.function)
	for k := range our {
		f := &our[k]
		switch {
		case f.inferred && f.path == caller.path && f.offset == caller.begins() && k+1 < len(our) && our[k+1].returnsTo(next):
			c.inferred++
		case !f.inferred && f.returnsTo(caller):
			c.seen++
		case !f.inferred && slices.ContainsFunc(truth[at+1:], func(behind perfNamed) bool { return f.returnsTo(&behind) }):
			c.missed++
			c.why["left out: "+pair]++
		default:
			continue
		}
		return
	}
	c.broken++
	c.why["nothing behind: "+pair]++
}

// returnsTo reports whether a frame of ours is one of perf's, which calls return
// addresses by the byte before.
func (f *perfNamed) returnsTo(truth *perfNamed) bool {
	return f.path == truth.path && f.offset == truth.offset+1
}

// check holds all inferred frames against the truth.
func (c *callers) check(t *testing.T, truth, our []perfNamed) {
	t.Helper()
	for k := range our {
		if !our[k].inferred {
			continue
		}
		c.frames++
		there := false
		for i := 0; i+1 < len(truth) && k+1 < len(our); i++ {
			there = there || truth[i].path == our[k].path && truth[i].begins() == our[k].offset && our[k+1].returnsTo(&truth[i+1])
		}
		if !there {
			c.wrong++
			t.Errorf("%+v is not on the stack\n%+v\n%+v", our[k], our, truth)
		}
	}
}
