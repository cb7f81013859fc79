package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ustack/cmd/ustack/internal/tracegen"
)

var profileData = flag.String("profile.perf-data", "", "the perf.data that BenchmarkReplayPerfData reads")

// BenchmarkReplay runs replay in the process, for profiles:
//
//	GOMAXPROCS=1 go test -pgo=off -run '^$' -bench 'Replay(Saved|PerfData)?$|Futex$' -benchtime 6x \
//		-profile.perf-data FILE -cpuprofile cpu.pprof ./cmd/ustack
//
// FILE is what BenchmarkPerfData records. A build with the profile as default.pgo must still
// be small enough for devices (.ci/run): the more functions a profile has, the larger it is.
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
	for _, format := range []string{"text", "json"} {
		b.Run(format, func(b *testing.B) {
			b.SetBytes(size)
			benchmarkRun(b, "replay", "-q", "--format", format, file)
		})
	}
}

// BenchmarkReplaySaved does the same with the stacks of a stock kernel, raw
// addresses, and what live has saved with them.
func BenchmarkReplaySaved(b *testing.B) {
	const size = 64 << 20
	dir := b.TempDir()
	trace, spaces := filepath.Join(dir, "trace.txt"), filepath.Join(dir, "spaces.txt")
	mappings := "# ustack side band 2 clock=mono\nread 1.000000000 0.000000000 4711 100 all:1 work\n" +
		" 7f0000000000-7f0010000000 r-xp 0 fe:00 1 0 file - /opt/work\nseen 1.000000000 4711 4711\n"
	if err := os.WriteFile(spaces, []byte(mappings), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(trace, stockTrace(size), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	benchmarkRun(b, "replay", "-q", "--symbols", "--build-id=none", "--maps", spaces, trace)
}

// BenchmarkReplayPerfData does the same with a perf.data.
func BenchmarkReplayPerfData(b *testing.B) {
	if *profileData == "" {
		b.Skip("-profile.perf-data names no file")
	}
	benchmarkRun(b, "replay", "-q", "--stitch", "--build-id=none", *profileData)
}

// stockTrace makes so many bytes of futex calls of a thread.
func stockTrace(size int) []byte {
	const head = "            work-4711    [000] ..... %5d.%06d: "
	text := make([]byte, 0, size+1<<10)
	for n := 0; len(text) < size; n++ {
		s, us := 100+n/1e5, n%1e5*10
		text = fmt.Appendf(text, head+"sys_futex(uaddr: 0x55a8b6606028, op: 0x%x, val: 1, utime: 0, uaddr2: 0, val3: 0)\n", s, us, 0x80+n%2)
		text = fmt.Appendf(text, head+"<user stack trace>\n", s, us+1)
		for k := range 3 + n%3 {
			text = fmt.Appendf(text, " =>  <%016x>\n", 0x7f0000001000+k*0x240+n%40)
		}
	}
	return text
}

// benchmarkRun runs a command again and again.
func benchmarkRun(b *testing.B, args ...string) {
	b.Helper()
	// A file, because other outputs are written differently.
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	b.ReportAllocs()
	for b.Loop() {
		var stderr bytes.Buffer
		if code := run(args, nil, null, &stderr); code != exitOK {
			b.Fatalf("exit code %d: %s", code, stderr.Bytes())
		}
	}
}
