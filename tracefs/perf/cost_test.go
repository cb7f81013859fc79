package perf_test

import (
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
)

// BenchmarkSamplerCost measures what a sample adds to a futex call of a thread that makes
// 50,000 a second, for copies of several sizes: the median time of a call, against that
// without a sampler, of rounds in turn; and the bytes of a record.
func BenchmarkSamplerCost(b *testing.B) {
	id := tracepoint(b, "syscalls", "sys_enter_futex")
	kinds := []struct {
		name         string
		stack, chain int
		sampled      bool
	}{{name: "none"}, {"0B", 0, 0, true}, {"512B", 512, 0, true}, {"1KiB", 1 << 10, 0, true}, {"8KiB", 8 << 10, 0, true}, {"chain", 0, 127, true}}
	const rounds, calls = 7, 5000
	took, bytes := make([][]time.Duration, len(kinds)), make([]float64, len(kinds))
	var lost uint64
	for b.Loop() {
		for range rounds {
			for i, k := range kinds {
				stop, counts := make(chan bool), make(chan perf.SampleCounts, 1)
				if k.sampled {
					s := openSampler(b, perf.SamplerOptions{StackBytes: k.stack, CallChain: k.chain, RingSize: 16 << 20,
						Tracepoints: []perf.Tracepoint{{ID: id, Filter: "val > 1000000"}}})
					go drainUntil(s, stop, counts)
				}
				took[i] = append(took[i], callers(calls))
				close(stop)
				if k.sampled {
					c := <-counts
					lost += c.Lost
					bytes[i] = float64(c.Bytes) / float64(c.Samples)
				}
			}
		}
	}
	none := median(took[0])
	b.ReportMetric(0, "ns/op")
	for i, k := range kinds {
		m := median(took[i])
		b.ReportMetric(float64(m), "ns/call:"+k.name)
		if k.sampled {
			b.ReportMetric(float64(m)/float64(none), "ratio:"+k.name)
			b.ReportMetric(bytes[i], "B/event:"+k.name)
		}
		b.Logf("%-6s %6d ns a call, %6d added, %.2f times, %6.0f bytes an event", k.name, m, m-none, float64(m)/float64(none), bytes[i])
	}
	b.Logf("%d samples lost", lost)
}

// drainUntil reads samples until it is stopped.
func drainUntil(s *perf.Sampler, stop <-chan bool, counts chan<- perf.SampleCounts) {
	for more := true; more; {
		select {
		case <-stop:
			more = false
		case <-time.After(2 * time.Millisecond):
		}
		s.Read(func(*perf.StackSample) {}, func(perf.Loss) {})
	}
	_ = s.Close()
	counts <- s.Counts()
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// callers makes calls with a deep stack, and returns the median time of one.
//
//go:noinline
func callers(calls int) time.Duration {
	var deep [32 << 10]byte // more than is copied
	defer runtime.KeepAlive(&deep)
	return paced(calls)
}

//go:noinline
func paced(calls int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const every = 20_000 // ns
	list := make([]time.Duration, calls)
	next := perf.Now(unix.CLOCK_MONOTONIC)
	for i := range list {
		from := perf.Now(unix.CLOCK_MONOTONIC)
		for ; from < next; from = perf.Now(unix.CLOCK_MONOTONIC) {
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), 128, 1000001, 0, 0, 0)
		list[i] = time.Duration(perf.Now(unix.CLOCK_MONOTONIC) - from)
		next = max(next+every, from)
	}
	return median(list)
}
