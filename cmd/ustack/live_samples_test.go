//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestFutexLiveSamples: the report has in which functions the owners of a lock computed, in the
// shares that the program has measured itself, as far as so many samples can show that; live,
// by perf, in a report, and in one that is redacted.
func TestFutexLiveSamples(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	dir := t.TempDir()
	program := filepath.Join(dir, "places")
	compileHolder(t, program, "places.c")
	bin := ustackBinary(t)
	run := func(args ...string) (out, truth []byte) {
		t.Helper()
		cmd := exec.Command(bin, append(args, "--", program, "150")...)
		var own, other bytes.Buffer
		cmd.Stdout, cmd.Stderr = &own, &other
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, other.Bytes())
		}
		return own.Bytes(), other.Bytes()
	}
	read := func(args ...string) []byte {
		t.Helper()
		out, err := exec.Command(bin, append([]string{"futex", "-q", "--symbols", "--json"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	saved, report, redacted := filepath.Join(dir, "saved"), filepath.Join(dir, "report.zst"), filepath.Join(dir, "redacted.zst")
	out, truth := run("futex", "--live", "-q", "--symbols", "--json", "--save", saved)
	live := samplesOf(t, out)
	live.check(t, truth)
	live.called(t)
	if replayed := samplesOf(t, read("--maps", filepath.Join(saved, "spaces.txt"), filepath.Join(saved, "trace.txt"))); fmt.Sprint(replayed) != fmt.Sprint(live) {
		t.Errorf("replay has %v, live %v", replayed, live)
	}
	out, truth = run("futex", "--live", "-q", "--symbols", "--json", "--source=perf")
	samplesOf(t, out).check(t, truth)
	_, truth = run("record", "-q", "-o", report)
	recorded := samplesOf(t, read(report))
	recorded.check(t, truth)
	recorded.called(t)
	_, truth = run("record", "-q", "--redact", "-o", redacted)
	if s := samplesOf(t, read(redacted)); s.all < fewestSamples {
		t.Errorf("%v, by the program %s", s, truth)
	}
}

// fewestSamples is how many samples a run has at least: the owners run for 1.5 s and more, and
// the timer ticks 100 times a second or oftener.
const fewestSamples = 100

// heldSamples are samples of the owners of the first lock of a report: in all, and by function.
type heldSamples struct {
	all  int64
	rest int64 // without a stack
	in   map[string]int64
	from int64 // called by critical
}

func samplesOf(t *testing.T, document []byte) (s heldSamples) {
	t.Helper()
	var r struct {
		Locks []struct {
			Holds struct {
				Samples int64
				Sampled []struct {
					Count int64
					Stack []struct{ Function string }
				}
			}
		}
	}
	if err := json.Unmarshal(document, &r); err != nil || len(r.Locks) == 0 {
		t.Fatalf("%v\n%s", err, document)
	}
	s.all, s.in = r.Locks[0].Holds.Samples, make(map[string]int64)
	for _, x := range r.Locks[0].Holds.Sampled {
		if len(x.Stack) == 0 {
			s.rest += x.Count
		} else {
			s.in[x.Stack[0].Function] += x.Count
			if len(x.Stack) > 1 && x.Stack[1].Function == "critical" {
				s.from += x.Count
			}
		}
	}
	return s
}

// check compares samples with what the program has printed.
func (s heldSamples) check(t *testing.T, truth []byte) {
	t.Helper()
	var long, short, other float64
	if _, err := fmt.Sscanf(string(truth), "long_part %f\nshort_part %f\nother_part %f", &long, &short, &other); err != nil {
		t.Fatalf("%v: %q", err, truth)
	}
	both := s.in["long_part"] + s.in["short_part"]
	want, got := long/(long+short), float64(s.in["long_part"])/float64(both)
	const deviations = 4.5 // in a million runs there are seven beyond
	most := deviations * math.Sqrt(want*(1-want)/float64(both))
	t.Logf("%d samples, %d without a stack: %v; %.1f %% of those in long_part, %.1f %% by the program, within %.1f %%", s.all, s.rest, s.in, got*100, want*100, most*100)
	if both < fewestSamples || math.Abs(got-want) > most || s.rest*20 > s.all {
		t.Errorf("%.1f %% of %d samples in long_part, by the program %.1f %%", got*100, both, want*100)
	}
	if s.in["other_part"] > 0 {
		t.Errorf("%d samples are outside of the lock", s.in["other_part"])
	}
}

// called checks that samples have their callers, although the program keeps no frame pointers.
func (s heldSamples) called(t *testing.T) {
	t.Helper()
	if both := s.in["long_part"] + s.in["short_part"]; s.from*10 < both*9 {
		t.Errorf("of %d samples %d have their caller", both, s.from)
	}
}
