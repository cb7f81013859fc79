//go:build !device

package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// diffDocument is what is read of the JSON document.
type diffDocument struct {
	Differs bool
	Changes []struct {
		State, Variable string
		Places          []string
		Sides           [2]struct{ Futexes int }
	}
}

// state returns what is said of the lock that a function waits for, "same" for nothing.
func (d *diffDocument) state(function string) string {
	for _, c := range d.Changes {
		if slices.Contains(c.Places, function) {
			return c.State
		}
	}
	return "same"
}

// diffOf compares two files, and checks that the exit code and the text say the same.
func diffOf(t *testing.T, a, b string) (d diffDocument) {
	t.Helper()
	code := exitOK
	cmd := exec.Command(ustackBinary(t), "diff", "-q", "--json", a, b)
	out, err := cmd.Output()
	if err != nil {
		code = cmd.ProcessState.ExitCode()
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code > exitDiffers || d.Differs != (code == exitDiffers) {
		t.Fatalf("exit code %d, differs %t", code, d.Differs)
	}
	text, _ := runs(t, code, "diff", "-q", a, b)
	if strings.HasPrefix(text, "Differ") != d.Differs || strings.Count(text, "\n") > 25 {
		t.Errorf("%s", text)
	}
	return d
}

// TestDiffSame: no trace differs from itself. What cannot be read is an error.
func TestDiffSame(t *testing.T) {
	capturetest.SkipShort(t)
	traces, withFutexes := 0, 0
	err := filepath.WalkDir("../../testdata", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "trace.txt.zst" {
			return err
		}
		var report, errs bytes.Buffer
		if run([]string{"futex", "-q", path}, strings.NewReader(""), &report, &errs) != exitOK {
			runs(t, exitUsage, "diff", "-q", "--no-symbols", path, path)
			return nil
		}
		traces++
		out, _ := runs(t, exitOK, "diff", "-q", "--no-symbols", path, path)
		if !strings.HasPrefix(out, "No difference, ") {
			t.Errorf("%s:\n%s", path, out)
		}
		if !strings.Contains(out, " of 0 compared") {
			withFutexes++
		}
		return nil
	})
	t.Logf("%d traces, %d with futexes that threads wait for", traces, withFutexes)
	if err != nil || traces < 40 || withFutexes == 0 {
		t.Errorf("%d traces, %d with futexes, %v", traces, withFutexes, err)
	}
}

// TestDiffErrors: an error is told from a difference by the exit code.
func TestDiffErrors(t *testing.T) {
	good := "../../testdata/diff/before.json.zst"
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"schema":"ustack.futex/9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{good}, {good, good, good}, {good, "missing"}, {good, bad}, {"--per=hour", good, good}, {"--threshold=x", good, good}, {"--threshold=100%", good, good}, {good, os.DevNull}} {
		if out, errs := runs(t, exitUsage, append([]string{"diff"}, args...)...); out != "" || errs == "" {
			t.Errorf("%q: %q, %q", args, out, errs)
		}
	}
}

// bank builds the program whose locks are known.
func bank(t *testing.T, args ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bank")
	args = append(args, "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", bin, "../../render/futex/diff/testdata/bank.c")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// recordedRun traces a run, and returns the trace.
func recordedRun(t *testing.T, bin string, args ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "trace.zst")
	cmd := exec.Command(ustackBinary(t), append([]string{"record", "-q", "-b", "8192", "-o", to, "--", bin}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// TestDiffLive: of a real program, built twice. What was changed in a run is known from its
// arguments: what it waits for there is said to have changed, and nothing is if nothing was.
func TestDiffLive(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	first, second := bank(t), bank(t, "-DPADDING")
	a := recordedRun(t, first, "run=1500")
	report := filepath.Join(t.TempDir(), "a.json")
	out, _ := runs(t, exitOK, "futex", "-q", "--json", "--symbols", "--top=0", a)
	if err := os.WriteFile(report, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		args     []string
		function string
		want     string
		futexes  int
	}{
		{"same", []string{"run=1500"}, "transfer", "same", 1},
		{"longer", []string{"run=2500"}, "transfer", "same", 1},
		{"halved", []string{"transfer=1000"}, "transfer", "less", 1},
		{"sharded", []string{"shards=4"}, "transfer", "less", 4},
		{"removed", []string{"transfer=0"}, "transfer", "gone", 0},
		{"added", []string{"journal=3000"}, "journal", "new", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := recordedRun(t, second, test.args...)
			d := diffOf(t, a, b)
			if got := d.state(test.function); got != test.want || d.Differs != (test.want != "same") {
				if c := diffOf(t, a, recordedRun(t, first, "run=1500")); c.Differs {
					t.Skipf("other programs change how long threads wait: an unchanged run differs, too: %+v", c)
				}
				t.Fatalf("%s: %s, want %s: %+v", test.function, got, test.want, d)
			}
			for _, c := range d.Changes {
				if slices.Contains(c.Places, test.function) && c.Sides[1].Futexes != test.futexes {
					t.Errorf("%d futexes, want %d", c.Sides[1].Futexes, test.futexes)
				}
			}
			byTrace, _ := runsAny(t, "diff", "-q", "--json", a, b)
			byReport, _ := runsAny(t, "diff", "-q", "--json", report, b)
			if byTrace != byReport {
				t.Errorf("of the trace:\n%s\nof its report:\n%s", byTrace, byReport)
			}
		})
	}
}

// runsAny runs a command of ustack, and returns what it prints and its exit code.
func runsAny(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out, errs strings.Builder
	code := run(args, strings.NewReader(""), &out, &errs)
	if code > exitDiffers {
		t.Fatalf("%q: %s", args, &errs)
	}
	return out.String(), code
}
