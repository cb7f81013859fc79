package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"ustack/cmd/ustack/internal/tracegen"
)

var futexBytes = flag.Int64("futex.bytes", 64<<20, "size of the trace that BenchmarkFutex reads")

// BenchmarkFutexProgram runs futex and wait on one core and on two, on traces of 300 MB
// without and with lost records, from the page cache, and the mawk rewriter of
// BenchmarkReplayAgainstMawk beside them: how fast a machine is differs from day to day,
// and how many times faster than mawk they are differs less. The best of its iterations
// counts; the loudest neighbour of a virtual machine decides about the others.
//
//	go test -run '^$' -bench FutexProgram -benchtime 5x ./cmd/ustack
//
// With -replay.bytes 3000000000 a trace has more than ten million events.
func BenchmarkFutexProgram(b *testing.B) {
	dir := b.TempDir()
	one, two := pinTo(b, "0"), pinTo(b, "0,1")
	ustack := buildUstack(b, dir)
	peer := &contender{name: "mawk"}
	var all []*contender
	for name, lost := range map[string]int{"whole": -1, "lost": 0} {
		file := filepath.Join(dir, name)
		writeFutexTrace(b, file, tracegen.Config{Bytes: *replayBytes, Seed: 1, LostEvery: lost})
		for _, command := range []string{"futex", "wait"} {
			all = append(all, &contender{name: command + "-" + name, args: join(one, ustack, command, "-q", file), env: []string{"GOMAXPROCS=1"}})
			if name == "whole" && runtime.NumCPU() > 1 {
				all = append(all, &contender{name: command + "-two-cores", args: join(two, ustack, command, "-q", file), env: []string{"GOMAXPROCS=2"}})
			}
		}
		peer.args = join(one, "mawk", "-f", filepath.Join("testdata", "bench", "rewrite.awk"), file)
	}
	if _, err := exec.LookPath("mawk"); err == nil {
		all = append(all, peer)
	}
	for b.Loop() {
		runAll(b, all)
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range all {
		b.ReportMetric(float64(*replayBytes)/1e6/c.best.Seconds(), c.name+"-MB/s")
		b.ReportMetric(float64(c.maxRSS)*1024/1e6, c.name+"-RSS-MB")
		if peer.best > 0 && c != peer {
			b.ReportMetric(peer.best.Seconds()/c.best.Seconds(), c.name+"-x-mawk")
		}
	}
}

func writeFutexTrace(b *testing.B, file string, c tracegen.Config) {
	b.Helper()
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tracegen.Write(f, c); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFutex runs futex in the process, for profiles:
//
//	GOMAXPROCS=1 go test -run '^$' -bench 'Futex$' ./cmd/ustack
//
// A trace with lost records must not be slower: it is read once, too.
func BenchmarkFutex(b *testing.B) {
	for _, c := range []struct {
		name string
		lost int
	}{{"whole", -1}, {"lost", 0}} {
		file := filepath.Join(b.TempDir(), "trace")
		writeFutexTrace(b, file, tracegen.Config{Bytes: *futexBytes, Seed: 1, LostEvery: c.lost})
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(*futexBytes)
			b.ReportAllocs()
			for b.Loop() {
				var stderr bytes.Buffer
				if code := run([]string{"futex", "-q", file}, nil, io.Discard, &stderr); code != exitOK {
					b.Fatalf("exit code %d: %s", code, stderr.Bytes())
				}
			}
		})
	}
}
