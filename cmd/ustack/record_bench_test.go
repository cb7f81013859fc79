//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkRecordSize compares a report with gzip -9 of the raw text of the very
// same run.
func BenchmarkRecordSize(b *testing.B) {
	_, work := workload(b)
	bin := ustackBinary(b)
	for range b.N {
		dir := b.TempDir()
		report, saved := filepath.Join(dir, "report.zst"), filepath.Join(dir, "saved")
		cmd := exec.Command(bin, "record", "-q", "-b", "30000", "--save", saved, "-o", report, "--", work, "storm", "3000")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(report)
		if err != nil {
			b.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(saved, savedTraceFile))
		if err != nil {
			b.Fatal(err)
		}
		var zipped bytes.Buffer
		z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := z.Write(raw); err != nil {
			b.Fatal(err)
		}
		if err := z.Close(); err != nil {
			b.Fatal(err)
		}
		events := float64(bytes.Count(raw, []byte(": sys_")))
		b.ReportMetric(float64(info.Size())/events, "report-B/event")
		b.ReportMetric(float64(zipped.Len())/events, "gzip-B/event")
		b.ReportMetric(float64(len(raw))/events, "raw-B/event")
		b.ReportMetric(float64(info.Size())/float64(zipped.Len()), "report/gzip")
	}
}
