package sideband

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf/perftest"
)

func BenchmarkDrainNothing(b *testing.B) {
	band, _ := openBand(b, Options{})
	for b.Loop() {
		if _, err := band.Drain(); err != nil {
			b.Fatal(err)
		}
	}
}

// rawMapID is a mapping with a build ID.
func rawMapID(pid int, addr uint64, name string, t uint64) []byte {
	return raw(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_MMAP_BUILD_ID, t, 1, perftest.IDs(pid, pid), perftest.U64(addr, 0x2000, 0),
		[]byte{20, 3: 0}, []byte{1, 2, 3, 19: 0}, perftest.U32(rx, unix.MAP_PRIVATE), perftest.Name(name))
}

// BenchmarkDrain drains the records of 1,000 processes that execute a program,
// seven each, again and again.
func BenchmarkDrain(b *testing.B) {
	const processes, each = 1000, 7
	for name, log := range map[string]io.Writer{"plain": nil, "log": io.Discard} {
		b.Run(name, func(b *testing.B) {
			band := fakeBand()
			if log != nil {
				band.History.log = &logWriter{w: log}
			}
			q, d := &band.batch, new(Drained)
			var records []byte
			for i := uint64(0); b.Loop(); i++ {
				b.StopTimer()
				q.Begin()
				records = records[:0]
				for pid := range processes {
					records = appendProcess(records, 100+pid, i*1e9+uint64(pid)*1000)
				}
				if err := q.Add(records); err != nil {
					b.Fatal(err)
				}
				d.Until = tracefs.Time((i + 1) * 1e9)
				b.StartTimer()
				band.apply(d)
				band.History.Expire(d.Until - 1e9)
				band.History.log.flush()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*processes*each), "ns/record")
		})
	}
}

// appendProcess appends what a process does that lives for a microsecond.
func appendProcess(b []byte, pid int, t uint64) []byte {
	b = append(b, rawTask(unix.PERF_RECORD_FORK, pid, 1, pid, 1, t, 0)...)
	b = append(b, rawComm(pid, pid, unix.PERF_RECORD_MISC_COMM_EXEC, "true", t+1, 0)...)
	for k, name := range []string{"/usr/bin/true", "[vdso]", "/usr/lib/ld.so", "/usr/lib/libc.so.6"} {
		b = append(b, rawMapID(pid, uint64(k+1)<<20, name, t+2+uint64(k))...)
	}
	return append(b, rawTask(unix.PERF_RECORD_EXIT, pid, 1, pid, 1, t+10, 0)...)
}
