//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/tracefs/capturetest"
)

// BenchmarkTraceDat compares replay and futex of a trace.dat with trace-cmd report
// of the same file, a capture that is repeated until it has a million records:
//
//	go test -run '^$' -bench TraceDat -benchtime 3x ./cmd/ustack
//
// All run in turn on one core, to /dev/null, and the best run of each counts:
//
//	X-Mrec/s    million records a second
//	X-x-report  how many times faster than trace-cmd report that is
func BenchmarkTraceDat(b *testing.B) {
	traceCmd, err := exec.LookPath("trace-cmd")
	if err != nil {
		b.Skip("trace-cmd is not installed")
	}
	const (
		capture = "../../tracefs/tracedat/testdata/hash.v6.dat.zst"
		records = 17431 // of the capture: tracefs/tracedat has its report
		times   = 60
	)
	dir := b.TempDir()
	ustack := buildUstack(b, dir)
	file := filepath.Join(dir, "trace.dat")
	if err := os.WriteFile(file, repeat(b, capturetest.Read(b, capture), times), 0o600); err != nil {
		b.Fatal(err)
	}
	one := pinTo(b, "0")
	single := []string{"GOMAXPROCS=1"}
	all := []*contender{
		{name: "report", args: join(one, traceCmd, "report", file)},
		{name: "replay", args: join(one, ustack, "replay", "-q", file), env: single},
		{name: "futex", args: join(one, ustack, "futex", "-q", file), env: single},
	}
	for b.Loop() {
		runAll(b, all)
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range all {
		b.ReportMetric(records*times/c.best.Seconds()/1e6, c.name+"-Mrec/s")
		b.ReportMetric(all[0].best.Seconds()/c.best.Seconds(), c.name+"-x-report")
	}
}

// repeat makes a longer trace.dat of version 6: the sub-buffers of each CPU so
// many times, each time later
// (Documentation/trace-cmd/trace-cmd.dat.v6.5.txt of trace-cmd).
func repeat(b *testing.B, data []byte, times int) []byte {
	b.Helper()
	const (
		tag       = "flyrecord\x00"
		entry     = 16 // of the table after it: offset and size, for each CPU
		page      = 4096
		stampSpan = uint64(10e9) // more than the capture is long
	)
	order := binary.LittleEndian
	table := bytes.Index(data, []byte(tag)) + len(tag)
	first := int(order.Uint64(data[table:]))
	if table < len(tag) || first <= table || first >= len(data) {
		b.Fatal("the capture is no trace.dat of version 6")
	}
	out := bytes.Clone(data[:first])
	for at := table; at+entry <= first; at += entry {
		from, size := int(order.Uint64(data[at:])), int(order.Uint64(data[at+8:]))
		if from < first || size == 0 || from+size > len(data) {
			break // after the table
		}
		order.PutUint64(out[at:], uint64(len(out)))
		order.PutUint64(out[at+8:], uint64(size*times))
		for n := range times {
			begin := len(out)
			out = append(out, data[from:from+size]...)
			for p := begin; p < len(out); p += page {
				order.PutUint64(out[p:], order.Uint64(out[p:])+uint64(n)*stampSpan)
			}
		}
	}
	return out
}
