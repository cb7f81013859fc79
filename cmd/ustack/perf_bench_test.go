//go:build linux

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkPerfScript compares replay --symbols with perf script, of the same
// futex calls of one run, which both have traced at the same time:
//
//	go test -run '^$' -bench PerfScript -benchtime 3x ./cmd/ustack
//
// They run in turn, to /dev/null, ustack on one core; the least CPU time of each
// counts, start and reading of symbol tables included:
//
//	events         of both: they must not differ
//	perf-ns        CPU time of perf script for an event with its stack
//	lean-ns        of perf script -F comm,tid,time,event,ip,sym,dso, which leaves
//	               out the event's fields
//	ustack-ns      of ustack replay --symbols --no-lines, the names that perf has
//	lines-ns       with source lines, and what is inlined there
//	x-perf         how many times faster than perf script ustack is
//	x-perf-file    the same if both write into a file, which is work of the kernel's
//
// Before, a program that fights for a mutex is traced in the same way. All names
// of both runs are held against perf's, and the benchmark fails if one is another
// function.
func BenchmarkPerfScript(b *testing.B) {
	needLive(b)
	perf, err := exec.LookPath("perf")
	if err != nil {
		b.Skip("no perf")
	}
	ustack := buildUstack(b, b.TempDir())
	work := filepath.Join(b.TempDir(), "work")
	compile(b, work, "work.c", "-ldl")
	traceTwice(b, perf, ustack, "fp", work, "herds", "20").compareNames(b)
	r := traceTwice(b, perf, ustack, "fp", work, "hammer", "4", "1")
	r.race(b, r.compareNames(b))
}

// race takes the times.
func (r *twice) race(b *testing.B, events int) {
	b.Helper()
	replay := join([]string{r.ustack, "replay", "-q", "--build-id=none", "--symbols"}, r.files...)
	script := []string{r.perf, "script", "-i", r.data}
	names := join(replay[:5:5], join([]string{"--no-lines"}, r.files...)...)
	file := filepath.Join(b.TempDir(), "out")
	all := []struct {
		name, out string
		args      []string
	}{
		{"perf", os.DevNull, script},
		{"lean", os.DevNull, join(script, "-F", "comm,tid,time,event,ip,sym,dso")},
		{"lines", os.DevNull, replay},
		{"ustack", os.DevNull, names},
		{"perf-file", file, script},
		{"ustack-file", file, names},
	}
	best := make(map[string]time.Duration)
	for b.Loop() {
		for _, c := range all {
			if took := cpuOf(b, c.out, c.args); best[c.name] == 0 || took < best[c.name] {
				best[c.name] = took
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(events), "events")
	for _, c := range all {
		b.ReportMetric(float64(best[c.name].Nanoseconds())/float64(events), c.name+"-ns")
	}
	b.ReportMetric(float64(best["perf"])/float64(best["ustack"]), "x-perf")
	b.ReportMetric(float64(best["perf-file"])/float64(best["ustack-file"]), "x-perf-file")
}

// cpuOf is the CPU time that a command takes on one core.
func cpuOf(b *testing.B, out string, args []string) time.Duration {
	b.Helper()
	to, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout = append(os.Environ(), "GOMAXPROCS=1"), to
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v", args, err)
	}
	took, _ := cpuTime(cmd)
	return took
}

// compareNames holds the names of all frames against perf's, and returns how many
// events there are.
func (r *twice) compareNames(b *testing.B) int {
	b.Helper()
	theirs, ours := r.perfSays(b), r.ustackSays(b, "--no-infer")
	if theirs.events != ours.events || ours.events == 0 {
		b.Fatalf("perf has %d events, ustack %d:\n%s", theirs.events, ours.events, r.said)
	}
	frames := 0
	aliases := make(map[string]bool)
	for tid, list := range theirs.byTID {
		if len(list) != len(ours.byTID[tid]) {
			b.Fatalf("of thread %d perf has %d events, ustack %d", tid, len(list), len(ours.byTID[tid]))
		}
		for i, k := range list {
			their, our := theirs.stacks[k], ours.stacks[ours.byTID[tid][i]]
			frames += len(our)
			if len(their) != len(our) {
				b.Fatalf("%v has not as many frames as perf's %v", our, their)
			}
			for f := range our {
				switch {
				case our[f] == their[f]:
				case our[f].offset == their[f].offset && our[f].at == their[f].at && our[f].path == their[f].path && our[f].function != "":
					// A function that begins in the same place of the same file.
					aliases[our[f].function+" is "+their[f].function] = true
				default:
					b.Fatalf("%v, of perf %v", our[f], their[f])
				}
			}
		}
	}
	b.Logf("%d events, %d frames, %d different stacks; other names of the same functions: %v", ours.events, frames, len(ours.stacks), slices.Sorted(maps.Keys(aliases)))
	return ours.events
}
