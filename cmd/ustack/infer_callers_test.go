//go:build linux

package main

import (
	"flag"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

var inferLevel = flag.String("infer.level", "-O2", "optimization of the programs of TestLiveInferCallers")

// TestLiveInferCallers: of the functions that call the C library to wait for a lock,
// or to release one, and that the kernel's unwinder leaves out: how many are
// inferred, in all our workloads. perf takes the same stacks at the same time, with
// what is on the stack, and unwinds them by call frame information: no function is
// inferred that is not there, at any level of any stack, and nearly all are. What is
// left is main, which the library calls by a pointer. Replayed, when the threads are
// gone, only those are there that the program calls itself.
func TestLiveInferCallers(t *testing.T) {
	needLive(t)
	capturetest.NeedLong(t)
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
	compile(t, in("work"), "work.c", *inferLevel, "-ldl")
	compile(t, in("locks"), "locks.c", *inferLevel, "-ldl")
	compile(t, in("shapes"), "shapes.c", *inferLevel, "-foptimize-sibling-calls")
	compile(t, in("workload"), "../../../../render/futex/testdata/workload.c", *inferLevel)
	compileCC(t, in("shop"), "locks.cc", *inferLevel, "-fno-optimize-sibling-calls")
	compileCC(t, in("jumps"), "locks.cc", *inferLevel, "-foptimize-sibling-calls")
	all, later := callers{why: make(map[string]int)}, callers{why: make(map[string]int)}
	count := func(t *testing.T, program []string) (live, replayed *callers) {
		t.Helper()
		r := &twice{perf: perf, ustack: ustack, callGraph: "dwarf,8192", names: true}
		r.trace(t, append([]string{in(program[0])}, program[1:]...))
		truth := r.perfSays(t)
		c := countCallers(t, truth, r.liveSays(t))
		t.Logf("%v: %v", program, c)
		again := countCallers(t, truth, r.ustackSays(t))
		if again.inferred > c.inferred {
			t.Errorf("%v: %d are inferred in replay", program, again.inferred)
		}
		return c, again
	}
	for _, program := range [][]string{
		{"work", "herds", "20"}, {"locks"}, {"shop", "40"},
		{"workload", "mutex"}, {"workload", "pi"}, {"workload", "rwlock"}, {"workload", "cond"}, {"workload", "sem"}, {"workload", "join"},
	} {
		live, replayed := count(t, program)
		all.add(live)
		later.add(replayed)
	}
	t.Logf("all of these: %v", &all)
	t.Logf("the same replayed: %v", &later)
	for _, c := range []*callers{&all, &later} {
		if c.inferred == 0 || c.jumped*20 > c.inferred {
			t.Errorf("%d are inferred, %d are not although the program calls them itself", c.inferred, c.jumped)
		}
	}
	if missed := all.pointed + all.jumped; missed*20 > all.inferred+missed {
		t.Errorf("%d of %d are not inferred: more than 5 %%", missed, all.inferred+missed)
	}
	if all.unknown*20 > all.inferred {
		t.Errorf("%d stacks are unknown to perf", all.unknown)
	}
	// Functions that end in jumps to others, and what is made to be difficult.
	count(t, []string{"jumps", "40"})
	count(t, []string{"shapes", "10"})
}

// compileCC builds a C++ program of testdata/live with frame pointers.
func compileCC(t testing.TB, out, source string, flags ...string) {
	t.Helper()
	gcc, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no C++ compiler")
	}
	args := append([]string{"-fno-omit-frame-pointer", "-Wl,--build-id=sha1", "-pthread", "-o", out, filepath.Join("testdata", "live", source)}, flags...)
	if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("g++ %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// callers sums up what became of those who called the C library.
type callers struct {
	inferred, pointed, jumped int // left out: inferred; not, called by a library; not, called by the program
	seen                      int // the kernel has the caller
	broken                    int // the kernel has no frame after the library
	unknown                   int // perf does not know the caller, or has not all stacks of the thread
	frames, wrong             int // inferred ones, of callers or not
	why                       map[string]int
}

func (c *callers) String() string {
	left := c.inferred + c.pointed + c.jumped
	why := ""
	for _, k := range slices.Sorted(maps.Keys(c.why)) {
		why += fmt.Sprintf("\n\t%6d %s", c.why[k], k)
	}
	return fmt.Sprintf("left out %d, inferred %d (%.1f %%), not inferred %d that a library calls and %d others; not left out %d, nothing left after the library %d, unknown %d; inferred in all %d, wrong %d%s",
		left, c.inferred, 100*float64(c.inferred)/float64(max(1, left)), c.pointed, c.jumped, c.seen, c.broken, c.unknown, c.frames, c.wrong, why)
}

func (c *callers) add(o *callers) {
	c.inferred += o.inferred
	c.pointed += o.pointed
	c.jumped += o.jumped
	c.seen += o.seen
	c.broken += o.broken
	c.unknown += o.unknown
	c.frames += o.frames
	c.wrong += o.wrong
	for k, n := range o.why {
		c.why[k] += n
	}
}

// countCallers compares the stacks of all events.
func countCallers(t *testing.T, truth, ours *perfStacks) *callers {
	t.Helper()
	c := &callers{why: make(map[string]int)}
	for tid, list := range truth.byTID {
		if len(list) != len(ours.byTID[tid]) {
			c.unknown += len(list) // perf loses what it has no time for
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
	t.Helper()
	c.check(t, truth, our)
	if len(truth) == 0 || !truth[0].ofLibraries() {
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
		case !f.inferred && slices.ContainsFunc(truth[at+1:], func(outer perfNamed) bool { return f.returnsTo(&outer) }):
			if next.ofLibraries() {
				c.pointed++
			} else {
				c.jumped++
			}
			c.why["not inferred: "+pair]++
		default:
			continue
		}
		return
	}
	c.broken++
	c.why["nothing left:  "+pair]++
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
