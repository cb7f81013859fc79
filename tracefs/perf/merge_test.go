package perf_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

// TestMergeLikeBatch: reading in place gives the same as reading copies, however
// records wrap around and wherever a reading ends, also before the last record.
func TestMergeLikeBatch(t *testing.T) {
	const cpus, size = 3, 1 << 13
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		var kernels [cpus]*perftest.Ring
		var rings []*perf.Ring
		for cpu := range kernels {
			kernels[cpu] = perftest.NewRing(cpu, size)
			kernels[cpu].Skip(8 * rnd.Uint64())
			rings = append(rings, kernels[cpu].Ring)
		}
		var m perf.Merge
		var in, out [][]byte
		var lost, reported uint64
		at := uint64(0)
		for range 20 {
			for range rnd.IntN(60) {
				at += uint64(1 + rnd.IntN(100))
				cpu := rnd.IntN(cpus)
				record := perftest.Record(unix.PERF_RECORD_SAMPLE, 0, at, uint32(cpu), make([]byte, 8*(8+rnd.IntN(60))))
				copy(record[8:], slices.Concat(perftest.U32(1, 2), perftest.U64(at), perftest.U32(uint32(cpu), 0)))
				if rnd.IntN(20) == 0 {
					n := uint64(1 + rnd.IntN(9))
					record = perftest.Record(unix.PERF_RECORD_LOST, 0, at, uint32(cpu), perftest.U64(1, n))
					if kernels[cpu].Write(record) {
						lost += n
					}
				} else if kernels[cpu].Write(record) {
					in = append(in, record)
				}
			}
			until := tracefs.Time(max(int(at)-rnd.IntN(500), 0))
			most, some := 1+rnd.IntN(60), 0 // to stop before the end, in half of the cases
			more, err := m.ReadSome(rings, until, func(tm tracefs.Time, b []byte) bool {
				if tm > until {
					t.Fatal("a record is too late")
				}
				out = append(out, bytes.Clone(b))
				some++
				return some < most
			}, func(l perf.Loss) { reported += l.Records })
			if err != nil || some > most || more != (some == most) {
				t.Fatalf("%v: %d records, at most %d; more: %v", err, some, most, more)
			}
		}
		if err := m.Read(rings, tracefs.Time(at), func(_ tracefs.Time, b []byte) { out = append(out, bytes.Clone(b)) },
			func(l perf.Loss) { reported += l.Records }); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(in, out, bytes.Equal) || lost != reported {
			t.Fatalf("seed %d: %d records in, %d out; %d lost, %d reported", seed, len(in), len(out), lost, reported)
		}
		for _, k := range kernels {
			if k.Unread() != 0 {
				t.Fatalf("seed %d: %d bytes keep their room", seed, k.Unread())
			}
		}
	}
}

// TestMergeMalformed: bytes that are no record empty their ring and are a loss; the
// other rings go on.
func TestMergeMalformed(t *testing.T) {
	a, b := perftest.NewRing(0, 1<<12), perftest.NewRing(1, 1<<12)
	a.Write(task(10, 0), make([]byte, 16), task(15, 0))
	b.Write(task(20, 1), task(30, 1))
	var m perf.Merge
	var times []tracefs.Time
	var losses []perf.Loss
	read := func() error {
		return m.Read([]*perf.Ring{a.Ring, b.Ring}, 100, func(t tracefs.Time, _ []byte) { times = append(times, t) },
			func(l perf.Loss) { losses = append(losses, l) })
	}
	if err := read(); err == nil {
		t.Error("no error")
	}
	if want := []tracefs.Time{10, 20, 30}; !slices.Equal(times, want) {
		t.Errorf("times %v", times)
	}
	if want := []perf.Loss{{CPU: 0, From: 10, To: 100}}; !slices.Equal(losses, want) {
		t.Errorf("losses %v", losses)
	}
	a.Write(task(40, 0))
	if err := read(); err != nil || len(times) != 4 {
		t.Errorf("%v, %v", times, err)
	}
}
