//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/input"
)

// TestPerfMerged: a trace of ftrace and a perf.data of one run are one time line. Each call that
// both have is there twice, next to each other for its thread, at nearly the same time.
func TestPerfMerged(t *testing.T) {
	needLive(t)
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed (Debian: linux-perf)")
	}
	dir := t.TempDir()
	saved, data := filepath.Join(dir, "saved"), filepath.Join(dir, "perf.data")
	const event, calls = "syscalls:sys_enter_write", 400
	loop := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo x; i=$((i+1)); done > /dev/null", calls)
	live := exec.Command(ustackBinary(t), "live", "-q", "-e", event, "--save", saved, "-o", os.DevNull, "--",
		perf, "record", "-q", "-B", "-N", "-k", "mono", "-m", "1M", "-e", event, "-o", data, "--", "sh", "-c", loop)
	if out, err := live.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", live.Args, err, out)
	}
	pairs := mergedPairs(t, filepath.Join(saved, "trace.txt"), data)
	if len(pairs) < calls {
		t.Fatalf("%d calls in both, not %d", len(pairs), calls)
	}
	slices.Sort(pairs)
	const bound = 10_000 // ns
	over := len(pairs) - lessThan(pairs, bound)
	t.Logf("%d calls in both, between them: median %d ns, worst %d ns, %d over %d ns", len(pairs), pairs[len(pairs)/2], pairs[len(pairs)-1], over, bound)
	if pairs[len(pairs)/2] > bound {
		t.Errorf("between the records of a call there are %d ns in the middle", pairs[len(pairs)/2])
	}
}

func lessThan(sorted []int64, v int64) int {
	n, _ := slices.BinarySearch(sorted, v)
	return n
}

// mergedPairs reads two files as one trace, and returns the times between the two records of
// each call, in nanoseconds. A thread has the calls in the same order in both; ustack may have
// begun earlier.
func mergedPairs(t *testing.T, names ...string) (between []int64) {
	t.Helper()
	trace, err := input.OpenAll(names, nil, input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	times := make(map[int32]*[2][]tracefs.Time)
	var b tracefs.Batch
	var last tracefs.Time
	for err == nil {
		err = trace.Next(&b)
		for i := range b.Records {
			r := &b.Records[i]
			if r.Kind != tracefs.KindEvent {
				continue
			}
			at := b.Time(r)
			if at < last {
				t.Fatalf("a record at %d comes after one at %d", at, last)
			}
			last = at
			if times[r.TID] == nil {
				times[r.TID] = new([2][]tracefs.Time)
			}
			times[r.TID][r.Source] = append(times[r.TID][r.Source], at)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	for _, of := range times {
		n := min(len(of[0]), len(of[1]))
		if n == 0 {
			continue
		}
		early := len(of[0]) - n // before perf began
		for i := range n {
			d := int64(of[0][early+i] - of[1][len(of[1])-n+i])
			between = append(between, max(d, -d))
		}
	}
	return between
}
