//go:build linux

package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

var perfDataBytes = flag.Int64("perf-data.bytes", 64<<20, "least size of the perf.data that BenchmarkPerfData reads")

// BenchmarkPerfData compares replay --stitch of a perf.data of futex calls with perf
// script of the same file:
//
//	go test -run '^$' -bench PerfData -benchtime 5x ./cmd/ustack
//
// All run in turn on one core, to /dev/null, and the best run of each counts:
//
//	X-MB/s   million bytes of the file a second
//	x-perf   how many times faster than perf script -F comm,tid,cpu,time,event,trace,ip,dso
//	         replay is: the address as it was, and the file
//	x-perf-sym  the same with ,sym: the offset in the file, as replay has it, and the
//	         function, which replay has not here
func BenchmarkPerfData(b *testing.B) {
	needLive(b)
	perf, err := exec.LookPath("perf")
	if err != nil {
		b.Skip("perf is not installed (Debian: linux-perf)")
	}
	dir := b.TempDir()
	ustack, work, data := buildUstack(b, dir), filepath.Join(dir, "work"), filepath.Join(dir, "perf.data")
	compile(b, work, "work.c", "-ldl")
	size := int64(0)
	for seconds := 1; size < *perfDataBytes && seconds <= 32; seconds *= 2 {
		cmd := exec.Command(perf, "record", "-q", "-g", "-m", "16M", "-o", data, "-e", "syscalls:sys_enter_futex,syscalls:sys_exit_futex",
			"--", work, "hammer", "4", strconv.Itoa(seconds))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		info, err := os.Stat(data)
		if err != nil {
			b.Fatal(err)
		}
		size = info.Size()
	}
	one := pinTo(b, "0")
	fields := "comm,tid,cpu,time,event,trace,ip,dso"
	all := []*contender{
		{name: "perf", args: join(one, perf, "script", "-i", data, "-F", fields)},
		{name: "perf-sym", args: join(one, perf, "script", "-i", data, "-F", fields+",sym")},
		{name: "ustack", args: join(one, ustack, "replay", "-q", "--stitch", "--build-id=none", data), env: []string{"GOMAXPROCS=1"}},
	}
	for b.Loop() {
		runAll(b, all)
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range all {
		b.ReportMetric(float64(size)/1e6/c.best.Seconds(), c.name+"-MB/s")
		if c != all[2] {
			b.ReportMetric(c.best.Seconds()/all[2].best.Seconds(), "x-"+c.name)
		}
	}
	b.ReportMetric(float64(all[2].maxRSS)/1024, "ustack-MiB")
}
