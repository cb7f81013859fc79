package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"ustack/cmd/ustack/internal/tracegen"
)

// BenchmarkReplay runs replay in the process, for profiles:
//
//	GOMAXPROCS=1 go test -pgo=off -run '^$' -bench 'Replay$' -cpuprofile cpu.pprof ./cmd/ustack
func BenchmarkReplay(b *testing.B) {
	const size = 64 << 20
	file := filepath.Join(b.TempDir(), "trace")
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tracegen.Write(f, tracegen.Config{Bytes: size, Seed: 1}); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	// A file, as the output is written otherwise to what is none.
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for _, format := range []string{"text", "json"} {
		b.Run(format, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				var stderr bytes.Buffer
				if code := run([]string{"replay", "-q", "--format", format, file}, nil, null, &stderr); code != exitOK {
					b.Fatalf("exit code %d: %s", code, stderr.Bytes())
				}
			}
		})
	}
}
