package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// buildShape builds the program whose bottleneck is known, with macros.
func buildShape(t *testing.T, bin, shape string, macros ...string) {
	t.Helper()
	args := []string{"-O1", "-pthread", "-o", bin, "-DSHAPE=" + shape}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	if out, err := exec.Command("gcc", append(args, "../../render/futex/impact/testdata/shapes.c")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
func recordShape(t *testing.T, bin, to string) shapeRun {
	t.Helper()
	out, err := exec.Command(ustackBinary(t), "record", "-q", "-b", "8192", "-o", to, "--", bin).Output()
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

// bottleneck is a program, and how long it holds its lock, in us.
type bottleneck struct {
	shape, macros string
	hold          int
}

// bottlenecks are the programs that are changed. The model was made with the first ones, and
// not with the ones that are held out.
var (
	bottlenecks = []bottleneck{
		{"sleep", "", 1000}, {"sleep", "THREADS=4 OUT=3000", 1000}, {"cpu", "OUT=1500", 500}, {"nested", "", 1000},
		{"pipeline", "THREADS=2 OUT=500", 1000}, {"io", "OUT=700", 1000}, {"sleep", "OUT=900 DECOYS=3 DECOY=1500", 700},
		{"sleep", "THREADS=2 OUT=200", 1000},
	}
	heldOut = []bottleneck{
		{"busy", "THREADS=4 OUT=600", 200}, {"phases", "OUT=500", 1000}, {"unequal", "THREADS=4 OUT=800", 600}, {"two", "OUT=300", 800},
		{"barrier", "THREADS=4 OUT=900", 500}, {"rpc", "OUT=600", 700}, {"inherit", "THREADS=4 OUT=400", 600},
		{"brief", "THREADS=6 OUT=200 ROUNDS=300", 100}, {"mixed", "THREADS=5 OUT=1500", 400}, {"skewed", "OUT=600", 500},
	}
	testHeldOut = flag.Bool("whatif.heldout", false, "TestWhatIf: programs that the model was not made with")
)

// change is a what-if, and the macro that makes it of a program.
type change struct{ how, macro string }

func (b *bottleneck) changes() []change {
	return []change{{"halve", fmt.Sprint("HOLD=", b.hold/2)}, {"shard:4", "SHARDS=4"}, {"remove", "REMOVED=1"}, {"shard:2", "SHARDS=2"}}
}

// build builds the program, and each of its changes.
func (b *bottleneck) build(t *testing.T) (plain string, changed []string) {
	t.Helper()
	dir := t.TempDir()
	macros := strings.Fields(b.macros)
	hold := fmt.Sprint("HOLD=", b.hold)
	plain = filepath.Join(dir, "plain")
	buildShape(t, plain, b.shape, append(slices.Clip(macros), hold)...)
	for i, c := range b.changes() {
		bin := filepath.Join(dir, fmt.Sprint("changed", i))
		with := append(slices.Clip(macros), c.macro)
		if !strings.HasPrefix(c.macro, "HOLD") {
			with = append(with, hold)
		}
		buildShape(t, bin, b.shape, with...)
		changed = append(changed, bin)
	}
	return plain, changed
}

// measured is how long a changed program takes, as a share of the time of the unchanged one
// that ran just before it: the median, and how far the others are from it at most. usual is
// the time of the unchanged one.
type measured struct{ ratio, apart, usual float64 }

// measure runs a program and its changes in turn.
func measure(t *testing.T, plain string, changed []string) (list []measured) {
	t.Helper()
	const runs = 3
	took := func(bin string) float64 {
		out, err := exec.Command(bin).Output()
		if err != nil {
			t.Fatal(err)
		}
		return shapeOf(t, out).time
	}
	all := make([][]float64, len(changed))
	var usual []float64
	for range runs {
		usual = append(usual, took(plain))
		for i, bin := range changed {
			all[i] = append(all[i], took(bin)/usual[len(usual)-1])
		}
	}
	slices.Sort(usual)
	for _, ratios := range all {
		slices.Sort(ratios)
		m := ratios[runs/2]
		list = append(list, measured{ratio: m, apart: max(m-ratios[0], ratios[runs-1]-m) / m, usual: usual[runs/2]})
	}
	return list
}

// How far runs of one program may be apart, of which a prediction is compared with another
// one: by their own clock, so that what else the machine does is not held against it.
const (
	apartAtMost    = 0.06
	recordedAtMost = 0.25 // the recorded run from the others
)

// predictions counts what became of them.
type predictions struct {
	errs, widths []float64
	signs, holds int
	unsteady     int // programs whose runs are too far apart
}

// TestWhatIf: programs that are really changed, and built again, take about as long as
// predicted.
func TestWhatIf(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	list := bottlenecks
	if *testHeldOut {
		list = heldOut
	}
	file := filepath.Join(t.TempDir(), "trace.zst")
	var p predictions
	for _, b := range list {
		plain, changed := b.build(t)
		for i, m := range measure(t, plain, changed) {
			p.add(t, &b, b.changes()[i].how, m, recordShape(t, plain, file), file)
		}
	}
	n := len(p.errs)
	if n < 4*len(list)/2 {
		t.Skipf("the runs of %d of %d programs are too far apart by their own clock", p.unsteady, n+p.unsteady)
	}
	slices.Sort(p.errs)
	wide := 0.0
	for _, w := range p.widths {
		wide += w / float64(n)
	}
	t.Logf("of %d: median error %.1f %%, sign right in %d, interval holds in %d, +- %.1f %% in the mean; %d more do not count",
		n, 100*p.errs[n/2], p.signs, p.holds, 100*wide, p.unsteady)
	if p.signs*100 < n*95 || p.errs[n/2] > 0.1 || p.holds*100 < n*90 || wide > 0.4 {
		t.Error("that is not good enough")
	}
}

// add compares a prediction with what a changed program does.
func (p *predictions) add(t *testing.T, b *bottleneck, how string, m measured, r shapeRun, file string) {
	t.Helper()
	w := impactOf(t, "--what-if", r.hot+"="+how, file).Impact.WhatIf
	if w == nil {
		t.Fatal("no prediction")
	}
	before := w.Recorded - r.time // the start of the program
	want := r.time * m.ratio
	off := (w.Predicted - before - want) / want
	holds := w.Low-before <= want && want <= w.High-before
	t.Logf("%-8s %-30s %-8s predicted %6.1f ms (%.1f to %.1f), really %6.1f, +- %.1f %%: %+5.1f %% off, holds %v; recorded %.1f, usually %.1f", b.shape, b.macros, how,
		(w.Predicted-before)/1e6, (w.Low-before)/1e6, (w.High-before)/1e6, want/1e6, 100*m.apart, 100*off, holds, r.time/1e6, m.usual/1e6)
	if m.apart > apartAtMost || max(r.time/m.usual, m.usual/r.time) > 1+recordedAtMost {
		p.unsteady++
		return
	}
	p.errs = append(p.errs, max(off, -off))
	p.widths = append(p.widths, (w.High-w.Low)/2/(w.Predicted-before))
	if (w.Predicted < w.Recorded) == (m.ratio < 1) || m.ratio > 0.97 {
		p.signs++
	}
	if holds {
		p.holds++
	}
}
