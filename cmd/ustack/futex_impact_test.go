package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// variant is a program and what changes one of its arguments in the way of a what-if.
type variant struct{ shape, args, how, arg string }

func variants() (all []variant) {
	for _, p := range [][3]string{{"sleep", "threads=3", "1000"}, {"sleep", "threads=4 out=3000", "1000"}, {"cpu", "threads=3 hold=500 out=1500", "500"}, {"nested", "threads=3", "1000"},
		{"pipeline", "threads=2 out=500", "1000"}, {"io", "threads=3 out=700", "1000"}, {"sleep", "threads=3 hold=700 out=900 decoys=3 decoy=1500", "700"}, {"sleep", "threads=2 out=200", "1000"}} {
		hold, _ := strconv.Atoi(p[2])
		for _, c := range [][2]string{{"halve", fmt.Sprint("hold=", hold/2)}, {"shard:4", "shards=4"}, {"remove", "removed=1"}, {"shard:2", "shards=2"}} {
			all = append(all, variant{p[0], p[1], c[0], c[1]})
		}
	}
	return all
}

// TestWhatIf: programs that are really changed take about as long as predicted. The
// machine may be busy: each is compared with an unchanged run next to it.
func TestWhatIf(t *testing.T) {
	bin, file := shapes(t), filepath.Join(t.TempDir(), "trace.zst")
	ratio := func(args []string, change string) float64 {
		var all []float64
		for range 3 {
			var took [2]float64
			for i, more := range [][]string{nil, {change}} {
				out, err := exec.Command(bin, append(slices.Clip(args), more...)...).Output()
				if err != nil {
					t.Fatal(err)
				}
				took[i] = shapeOf(t, out).time
			}
			all = append(all, took[1]/took[0])
		}
		slices.Sort(all)
		return all[1]
	}
	var errs []float64
	signs, in := 0, 0
	for _, v := range variants() {
		args := append([]string{v.shape, "rounds=100"}, strings.Fields(v.args)...)
		r := recordShape(t, bin, file, args...)
		w := impactOf(t, "--what-if", r.hot+"="+v.how, file).Impact.WhatIf
		if w == nil {
			t.Fatal("no prediction")
		}
		real := ratio(args, v.arg)
		before := w.Recorded - r.time // the start of the program
		want := r.time * real
		off := (w.Predicted - before - want) / want
		errs = append(errs, max(off, -off))
		if (w.Predicted < w.Recorded) == (real < 1) || real > 0.97 {
			signs++
		}
		if w.Low-before <= want && want <= w.High-before {
			in++
		}
		t.Logf("%-8s %-44s %-8s predicted %6.1f ms (%.1f to %.1f), really %6.1f, %+5.1f %% off", v.shape, v.args, v.how, (w.Predicted-before)/1e6, (w.Low-before)/1e6, (w.High-before)/1e6, want/1e6, 100*off)
	}
	slices.Sort(errs)
	n := len(errs)
	t.Logf("of %d: median error %.1f %%, sign right in %d, interval holds in %d", n, 100*errs[n/2], signs, in)
	if signs*100 < n*90 || errs[n/2] > 0.2 {
		t.Error("that is not good enough")
	}
}
