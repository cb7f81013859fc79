//go:build linux && (amd64 || arm64) && !device

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// wholeReport is what the tests read of a report.
type wholeReport struct {
	Stacks          struct{ Waits, Unwound, Application, Root int }
	Locks, Condvars []struct {
		Address    string
		WaitStacks []struct {
			Stack []struct{ Function, Path, Offset, How, Trust string }
			Count int
			End   string `json:"stack_end"`
		} `json:"wait_stacks"`
	}
}

// wholeOf runs a program under futex --live, and returns the report.
func wholeOf(t *testing.T, flags []string, command ...string) (r wholeReport) {
	t.Helper()
	args := append([]string{"futex", "--live", "-q", "--json", "--symbols", "--top=1000"}, flags...)
	text, err := exec.Command(ustackBinary(t), append(append(args, "--"), command...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return r
}

// chains returns the stacks of a report: their frames by file and offset, with the functions.
func (r *wholeReport) chains() map[string]int {
	all := make(map[string]int)
	for _, l := range append(r.Locks, r.Condvars...) {
		for _, s := range l.WaitStacks {
			var b strings.Builder
			for _, f := range s.Stack {
				fmt.Fprintf(&b, "%s+%s %s\n", f.Path, f.Offset, f.Function)
			}
			if len(s.Stack) > 0 {
				all[b.String()+s.End] += s.Count
			}
		}
	}
	return all
}

// TestFutexSumsWhole: long waits of a program without frame pointers have whole stacks, and they are
// those that perf's copies of the same program give.
func TestFutexSumsWhole(t *testing.T) {
	capturetest.NeedLong(t)
	needBPF(t)
	program := filepath.Join(t.TempDir(), "waits")
	compileWaits(t, program)
	bpf := []string{"--source=bpf", "--min-wait=50us"}
	r := wholeOf(t, bpf, program, "300")
	s := r.Stacks
	if s.Waits < 200 || s.Unwound*100 < 99*s.Waits || s.Application*100 < 99*s.Waits || s.Root*100 < 95*s.Waits {
		t.Errorf("whole stacks: %+v", s)
	}
	byPerf := wholeOf(t, []string{"--unwind=copy", "-b", "8192"}, program, "1000")
	want, got := byPerf.chains(), r.chains()
	same, all := 0, 0
	for chain, n := range got {
		if all += n; want[chain] > 0 {
			same += n
		} else {
			t.Logf("%d times a stack that perf's copies do not have:\n%s", n, chain)
		}
	}
	t.Logf("%d of %d waits, of %d stacks, have a stack of the %d of perf's copies", same, all, len(got), len(want))
	if same*100 < 98*all || len(got) < 10 {
		t.Errorf("only %d of %d waits have a stack that perf's copies have", same, all)
	}
	if s := wholeOf(t, append(bpf, "--unwind=fp"), program, "100").Stacks; s.Unwound > 0 || s.Application*100 >= 99*s.Waits {
		t.Errorf("by frame pointers: %+v", s)
	}
}

// TestRecordSumsWhole: what is recorded has the whole stacks, and how their frames were found.
func TestRecordSumsWhole(t *testing.T) {
	capturetest.NeedLong(t)
	needBPF(t)
	dir := t.TempDir()
	program, name := filepath.Join(dir, "waits"), filepath.Join(dir, "report")
	compileWaits(t, program)
	text, err := exec.Command(ustackBinary(t), "record", "-q", "--source=bpf", "--ring", "--min-wait=50us", "--trigger=futex-wait>1ms", "--after=1h", "-o", name, "--", program, "100").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	saved, err := exec.Command(ustackBinary(t), "futex", "--json", "--symbols", "--top=1000", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	var r wholeReport
	if err := json.Unmarshal(saved, &r); err != nil {
		t.Fatalf("%v in\n%s", err, saved)
	}
	if s := r.Stacks; s.Waits < 50 || s.Unwound*100 < 99*s.Waits || s.Application*100 < 99*s.Waits || s.Root*100 < 95*s.Waits {
		t.Errorf("whole stacks: %+v", s)
	}
	named := 0
	for _, l := range append(r.Locks, r.Condvars...) {
		for _, s := range l.WaitStacks {
			for _, f := range s.Stack {
				if f.How == "cfi" && f.Trust == "late" && strings.HasPrefix(f.Function, "wait_turn") {
					named += s.Count
				}
			}
		}
	}
	if named == 0 {
		t.Errorf("no wait in wait_turn: %+v", r.Stacks)
	}
}

// TestRecordSumsJava: what is recorded of waits of Java threads has the methods that the program has
// called, interpreted and compiled, and no class that has gone gives its name to another one.
func TestRecordSumsJava(t *testing.T) {
	capturetest.NeedLong(t)
	needBPF(t)
	command := compileJava(t)
	for _, extra := range [][]string{nil, {"renew"}} {
		name := filepath.Join(t.TempDir(), "report")
		args := []string{"record", "--source=bpf", "--ring", "--min-wait=100us", "--trigger=futex-wait>1ms", "--after=1h", "-o", name, "--"}
		recorder := exec.Command(ustackBinary(t), slices.Concat(args, command, []string{*javaTime}, extra)...)
		var words bytes.Buffer
		recorder.Stderr = &words
		called, err := recorder.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, words.Bytes())
		}
		t.Logf("%s", words.Bytes())
		text, err := exec.Command(ustackBinary(t), "replay", "-q", "--symbols", "--format=json", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		list := javaWaits(t, text, func(name, _ string) bool { return name == "ustack_futex_wait" })
		if chains, ends := checkJava(t, list, javaTruth(called)); chains < 100 || 2*ends < chains {
			t.Errorf("of %d waits of threads with a chain of calls, only %d reach the root", chains, ends)
		}
	}
}

// TestFutexSumsSwapped: where a library has been unloaded after a wait, and another one is in its
// place when ustack looks, the wait has neither the file nor a function of that one, whether or not
// the kernel finds build IDs.
func TestFutexSumsSwapped(t *testing.T) {
	needBPF(t)
	needProgram(t, "gcc")
	for _, ids := range []string{"sha1", "none"} {
		for _, by := range []string{"copy", "fp"} {
			t.Run(ids+"-"+by, func(t *testing.T) { swapped(t, ids, by) })
		}
	}
}

func swapped(t *testing.T, ids, by string) {
	dir := t.TempDir()
	source, program := filepath.Join("testdata", "live", "swap.c"), filepath.Join(dir, "swap")
	var libraries []string
	for _, which := range []string{"first", "second"} {
		lib := filepath.Join(dir, "lib"+which+".so")
		libraries = append(libraries, lib)
		gcc(t, "-O2", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-DLIBRARY", "-DNAME=waits_in_"+which, "-Wl,--build-id="+ids, "-o", lib, source)
	}
	gcc(t, "-O2", "-fno-omit-frame-pointer", "-Wl,--build-id="+ids, "-o", program, source, "-ldl")
	out := filepath.Join(dir, "out")
	const rounds = 4
	r := wholeOf(t, []string{"--source=bpf", "--unwind=" + by}, "sh", "-c", `exec "$0" "$@" >`+out, program, libraries[0], libraries[1], strconv.Itoa(rounds))
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var same int
	var first, second string
	if _, err := fmt.Sscan(string(text), &same, &first, &second); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if same == 0 {
		if os.Getenv("USTACK_LIVE") == "must" {
			t.Errorf("the second library was never in the place of the first one")
		}
		t.Skipf("the second library was never in the place of the first one")
	}
	seen := 0
	for _, l := range append(r.Locks, r.Condvars...) {
		for _, s := range l.WaitStacks {
			for _, f := range s.Stack {
				// Without a build ID the file has no functions.
				switch is := f.Path + " " + f.Function; {
				case l.Address == first && strings.Contains(is, "second"), l.Address == second && strings.Contains(is, "first"):
					t.Errorf("%d waits at %s have the frame %s: %+v", s.Count, l.Address, is, s.Stack)
				case strings.Contains(is, "libfirst.so"), strings.Contains(is, "libsecond.so"):
					seen += s.Count
				}
			}
		}
	}
	if seen == 0 {
		t.Errorf("no wait has its library: %+v", r.Stacks)
	}
}

// gcc compiles for a test.
func gcc(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
