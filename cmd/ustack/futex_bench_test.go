package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ustack/cmd/ustack/internal/tracegen"
)

var futexBytes = flag.Int64("futex.bytes", 64<<20, "size of the trace that BenchmarkFutex reads")

// BenchmarkFutex runs futex in the process, on one core with GOMAXPROCS=1:
//
//	GOMAXPROCS=1 go test -run '^$' -bench Futex ./cmd/ustack
//
// A trace with lost records must not be slower: it is read once, too.
func BenchmarkFutex(b *testing.B) {
	for _, c := range []struct {
		name string
		lost int
	}{{"whole", -1}, {"lost", 0}} {
		file := filepath.Join(b.TempDir(), "trace")
		f, err := os.Create(file)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tracegen.Write(f, tracegen.Config{Bytes: *futexBytes, Seed: 1, LostEvery: c.lost}); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
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
