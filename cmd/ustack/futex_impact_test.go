package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// shapes is the program whose bottleneck is known, built.
func shapes(t *testing.T) string {
	t.Helper()
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	bin := filepath.Join(t.TempDir(), "shapes")
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", bin, "../../render/futex/impact/testdata/shapes.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// shapeRun is what the program says of itself: its time in ns, and where its locks are.
type shapeRun struct {
	time      float64
	hot, loud string
}

func shapeOf(t *testing.T, out []byte) (r shapeRun) {
	t.Helper()
	if _, err := fmt.Sscanf(string(out), "%f hot=%s loud=%s", &r.time, &r.hot, &r.loud); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// recordShape traces a run.
func recordShape(t *testing.T, bin, to string, args ...string) shapeRun {
	t.Helper()
	cmd := exec.Command(ustackBinary(t), append([]string{"record", "-q", "-b", "8192", "-o", to, "--", bin}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return shapeOf(t, out)
}

// impactDocument is what is read of the JSON report.
type impactDocument struct {
	Impact struct {
		From  int64 `json:"from_ns"`
		To    int64 `json:"to_ns"`
		Error string
		Locks []struct {
			Address, Kind string
			OnPath        int64 `json:"on_path_ns"`
			Total         int64 `json:"total_ns"`
		}
		WhatIf *struct {
			Recorded  float64 `json:"recorded_ns"`
			Predicted float64 `json:"predicted_ns"`
			Low       float64 `json:"low_ns"`
			High      float64 `json:"high_ns"`
		} `json:"what_if"`
	}
}

func impactOf(t *testing.T, args ...string) (d impactDocument) {
	t.Helper()
	out, _ := runs(t, exitOK, append([]string{"futex", "-q", "--json", "--top=0", "--impact"}, args...)...)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Impact.Error != "" {
		t.Fatal(d.Impact.Error)
	}
	return d
}

// bottleneck is a program, and how its lock is held in each critical section, in us.
type bottleneck struct {
	shape, args string
	hold        int
}

// bottlenecks are the programs that are changed.
var bottlenecks = []bottleneck{
	{"sleep", "threads=3", 1000}, {"sleep", "threads=4 out=3000", 1000}, {"cpu", "threads=3 hold=500 out=1500", 500}, {"nested", "threads=3", 1000},
	{"pipeline", "threads=2 out=500", 1000}, {"io", "threads=3 out=700", 1000},
	{"sleep", "threads=3 hold=700 out=900 decoys=3 decoy=1500", 700}, {"sleep", "threads=2 out=200", 1000},
}

// change is a what-if, and the argument that makes it of a program.
type change struct{ how, arg string }

func (b *bottleneck) changes() []change {
	return []change{{"halve", fmt.Sprint("hold=", b.hold/2)}, {"shard:4", "shards=4"}, {"remove", "removed=1"}, {"shard:2", "shards=2"}}
}

// ratios returns how long a program takes with each of the changes, as a share of its time
// without. The machine may be busy: a run is compared with the unchanged one before it.
func (b *bottleneck) ratios(t *testing.T, bin string, args []string) []float64 {
	t.Helper()
	took := func(args []string) float64 {
		out, err := exec.Command(bin, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return shapeOf(t, out).time
	}
	changes := b.changes()
	all := make([][]float64, len(changes))
	for range 3 {
		plain := took(args)
		for i, c := range changes {
			all[i] = append(all[i], took(append(slices.Clip(args), c.arg))/plain)
		}
	}
	median := make([]float64, len(changes))
	for i, list := range all {
		slices.Sort(list)
		median[i] = list[1]
	}
	return median
}

// TestWhatIf: programs that are really changed take about as long as predicted.
func TestWhatIf(t *testing.T) {
	bin, file := shapes(t), filepath.Join(t.TempDir(), "trace.zst")
	var errs []float64
	signs, in := 0, 0
	for _, b := range bottlenecks {
		args := append([]string{b.shape, "rounds=100"}, strings.Fields(b.args)...)
		ratios := b.ratios(t, bin, args)
		for i, c := range b.changes() {
			r := recordShape(t, bin, file, args...)
			w := impactOf(t, "--what-if", r.hot+"="+c.how, file).Impact.WhatIf
			if w == nil {
				t.Fatal("no prediction")
			}
			before := w.Recorded - r.time // the start of the program
			want := r.time * ratios[i]
			off := (w.Predicted - before - want) / want
			errs = append(errs, max(off, -off))
			if (w.Predicted < w.Recorded) == (ratios[i] < 1) || ratios[i] > 0.97 {
				signs++
			}
			if w.Low-before <= want && want <= w.High-before {
				in++
			}
			t.Logf("%-8s %-44s %-8s predicted %6.1f ms (%.1f to %.1f), really %6.1f, %+5.1f %% off", b.shape, b.args, c.how, (w.Predicted-before)/1e6, (w.Low-before)/1e6, (w.High-before)/1e6, want/1e6, 100*off)
		}
	}
	slices.Sort(errs)
	n := len(errs)
	t.Logf("of %d: median error %.1f %%, sign right in %d, interval holds in %d", n, 100*errs[n/2], signs, in)
	if signs*100 < n*90 || errs[n/2] > 0.2 {
		t.Error("that is not good enough")
	}
}
