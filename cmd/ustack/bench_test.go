//go:build linux

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/tracegen"
)

var replayBytes = flag.Int64("replay.bytes", 300<<20, "size of the trace that BenchmarkReplayAgainstMawk replays")

// A contender is one command whose speed is measured.
type contender struct {
	name   string
	args   []string
	env    []string
	best   time.Duration
	maxRSS int64 // KiB
}

// BenchmarkReplayAgainstMawk compares replay with a one-pass mawk rewriter on
// the same generated trace:
//
//	go test -run '^$' -bench Mawk -benchtime 3x ./cmd/ustack
//
// Each iteration runs mawk, ustack on one core, ustack on two cores and
// ustack with JSON output on one core, in turn, all of them from a file in
// the page cache to /dev/null. At least three iterations are made and the best
// one of each counts:
//
//	mawk-MB/s        text read by mawk, 10^6 bytes a second
//	one-core-MB/s    the same for ustack replay, and so on
//	one-core-x-mawk  how many times faster than mawk that is
//	json-of-text     speed of JSON output as a part of that of text output
//	one-core-RSS-MB  largest resident set of all iterations, 10^6 bytes
//
// A process starts with the resident set of the one that started it on its
// account, so mawk-RSS-MB is as low as that metric gets.
func BenchmarkReplayAgainstMawk(b *testing.B) {
	mawk, err := exec.LookPath("mawk")
	if err != nil {
		b.Skip("mawk is not installed")
	}
	dir := b.TempDir()
	ustack := buildUstack(b, dir)
	trace, size := writeTrace(b, dir)

	one, two := pinTo(b, "0"), pinTo(b, "0,1")
	text := []string{ustack, "replay", "-q", trace}
	json := []string{ustack, "replay", "-q", "--format=json", trace}
	script := filepath.Join("testdata", "bench", "rewrite.awk")
	all := []*contender{
		{name: "mawk", args: join(one, mawk, "-f", script, trace)},
		{name: "one-core", args: join(one, text...), env: []string{"GOMAXPROCS=1"}},
	}
	if runtime.NumCPU() > 1 {
		all = append(all, &contender{name: "two-core", args: join(two, text...), env: []string{"GOMAXPROCS=2"}})
	} else {
		b.Log("one core only: two-core is left out")
	}
	all = append(all, &contender{name: "json", args: join(one, json...), env: []string{"GOMAXPROCS=1"}})

	rounds := 0
	for b.Loop() {
		runAll(b, all)
		rounds++
	}
	for ; rounds < 3; rounds++ {
		runAll(b, all)
	}
	report(b, all, size)
}

// buildUstack builds the command and returns where it is.
func buildUstack(b *testing.B, dir string) string {
	b.Helper()
	bin := filepath.Join(dir, "ustack")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// writeTrace generates the trace and returns where it is and how long.
func writeTrace(b *testing.B, dir string) (string, int64) {
	b.Helper()
	path := filepath.Join(dir, "trace_pipe.txt")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	stats, err := tracegen.Write(f, tracegen.Config{Bytes: *replayBytes, Seed: 1})
	if err := errors.Join(err, f.Close()); err != nil {
		b.Fatal(err)
	}
	b.Logf("trace: %d bytes, %d lines, %d stacks, %d frames, %d announcements, %d rebindings, %d losses",
		stats.Bytes, stats.Lines, stats.Stacks, stats.Frames, stats.MappingEvents, stats.Rebindings, stats.Losses)
	return path, stats.Bytes
}

// pinTo returns the command that keeps another one on the given CPUs, which
// is empty where that is not possible.
func pinTo(b *testing.B, cpuList string) []string {
	b.Helper()
	args := []string{"taskset", "-c", cpuList}
	if err := exec.Command(args[0], append(args[1:], "true")...).Run(); err != nil {
		b.Logf("not pinned to CPUs %s: %v", cpuList, err)
		return nil
	}
	return args
}

func join(head []string, tail ...string) []string {
	return append(append([]string(nil), head...), tail...)
}

func runAll(b *testing.B, all []*contender) {
	b.Helper()
	for _, c := range all {
		if err := c.run(); err != nil {
			b.Fatal(err)
		}
	}
}

// run runs the command once and takes note of its time and memory.
func (c *contender) run() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout = null
	cmd.Stderr = &stderr
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, stderr.Bytes())
	}
	if c.best == 0 || took < c.best {
		c.best = took
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.maxRSS = max(c.maxRSS, int64(usage.Maxrss))
	}
	return nil
}

func report(b *testing.B, all []*contender, size int64) {
	b.Helper()
	speed := make(map[string]float64)
	for _, c := range all {
		speed[c.name] = float64(size) / 1e6 / c.best.Seconds()
		b.ReportMetric(speed[c.name], c.name+"-MB/s")
		b.ReportMetric(float64(c.maxRSS)*1024/1e6, c.name+"-RSS-MB")
	}
	b.ReportMetric(speed["one-core"]/speed["mawk"], "one-core-x-mawk")
	if two, ok := speed["two-core"]; ok {
		b.ReportMetric(two/speed["mawk"], "two-core-x-mawk")
	}
	b.ReportMetric(speed["json"]/speed["one-core"], "json-of-text")
	b.ReportMetric(0, "ns/op") // a round of all commands says nothing
}
