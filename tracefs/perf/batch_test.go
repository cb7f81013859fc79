package perf_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

func task(t uint64, cpu uint32) []byte {
	return perftest.Record(unix.PERF_RECORD_FORK, 0, t, cpu, perftest.IDs(2, 1, 2, 1), perftest.U64(t))
}

func lostRecords(n, t uint64, cpu uint32) []byte {
	return perftest.Record(unix.PERF_RECORD_LOST, 0, t, cpu, perftest.U64(1, n))
}

// collect reads rings into a batch.
func collect(q *perf.Batch, until tracefs.Time, rings ...*perftest.Ring) (times []tracefs.Time, losses []perf.Loss, malformed int) {
	q.Begin()
	for _, r := range rings {
		if q.Collect(r.Ring, until, func(l perf.Loss) { losses = append(losses, l) }) != nil {
			malformed++
		}
	}
	q.Sort()
	for t := range q.Until(until) {
		times = append(times, t)
	}
	return times, losses, malformed
}

// TestBatch: records of several CPUs come in order of time, what is after the call
// waits for the next one, and a loss is from the last record to the one that reports
// it.
func TestBatch(t *testing.T) {
	a, b := perftest.NewRing(0, 1<<14), perftest.NewRing(1, 1<<14)
	a.Begin(5)
	a.Write(task(10, 0), task(40, 0), task(110, 0))
	b.Write(task(20, 1), lostRecords(5, 30, 1), lostRecords(2, 35, 1), task(50, 1))
	var q perf.Batch
	times, losses, malformed := collect(&q, 100, a, b)
	if want := []tracefs.Time{10, 20, 30, 35, 40, 50}; !slices.Equal(times, want) || malformed != 0 {
		t.Errorf("times %v, %d malformed", times, malformed)
	}
	if want := []perf.Loss{{CPU: 1, Records: 5, From: 20, To: 30}, {CPU: 1, Records: 2, From: 30, To: 35}}; !slices.Equal(losses, want) {
		t.Errorf("losses %v", losses)
	}
	a.Write(make([]byte, 8))
	times, losses, malformed = collect(&q, 200, a, b)
	if want := []tracefs.Time{110}; !slices.Equal(times, want) || malformed != 1 {
		t.Errorf("times %v, %d malformed", times, malformed)
	}
	if want := []perf.Loss{{CPU: 0, From: 110, To: 200}}; !slices.Equal(losses, want) {
		t.Errorf("losses %v", losses)
	}
}

// TestWithoutTasks: of a ring that is beside another one, forks do not count twice.
func TestWithoutTasks(t *testing.T) {
	a, b := perftest.NewRing(0, 1<<14), perftest.NewRing(0, 1<<14)
	b.WithoutTasks = true
	a.Write(task(10, 0), task(30, 0))
	data := func(t uint64) []byte {
		return perftest.Record(unix.PERF_RECORD_MMAP, unix.PERF_RECORD_MISC_MMAP_DATA, t, 0, perftest.IDs(2, 2),
			perftest.U64(0x1000, 0x2000, 0), perftest.Name("//anon"))
	}
	b.Write(task(11, 0), data(20), task(31, 0), data(40))
	var q perf.Batch
	times, _, _ := collect(&q, 35, a, b)
	more, _, _ := collect(&q, 50, a, b)
	if got := slices.Concat(times, more); !slices.Equal(got, []tracefs.Time{10, 20, 30, 40}) {
		t.Errorf("times %v", got)
	}
	var r perf.Record
	if _, err := (perf.Layout{}).Decode(data(20), &r); err != nil || r.PID != 2 || r.Addr != 0x1000 || r.Len != 0x2000 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestBeside: the records of mappings, and no others, in a ring that is beside another one are marked, also if
// they are left for the next batch. They have the inode, whatever bit the kernel has left set.
func TestBeside(t *testing.T) {
	const code, data = unix.PERF_RECORD_MISC_MMAP_BUILD_ID, unix.PERF_RECORD_MISC_MMAP_DATA
	mapped := func(t uint64, misc uint16) []byte {
		return perftest.Record(unix.PERF_RECORD_MMAP2, misc, t, 0, perftest.IDs(2, 2), perftest.U64(0x1000, 0x2000, 0),
			perftest.U32(200, 1), perftest.U64(33, 0), perftest.U32(5, 2), perftest.Name("/lib"))
	}
	// A sample has its common part first, and the record of a tracepoint last.
	sample := perftest.Record(unix.PERF_RECORD_SAMPLE, 0, 0, 0, perftest.U32(2, 2), perftest.U64(40, 0), perftest.U32(4, 0))
	sample = sample[:len(sample)-24]
	binary.NativeEndian.PutUint16(sample[6:], uint16(len(sample)))
	a, b := perftest.NewRing(0, 1<<14), perftest.NewRing(0, 1<<14)
	b.WithoutTasks = true
	a.Write(mapped(11, 0), mapped(31, 0))
	b.Write(mapped(10, code), mapped(20, data|code), mapped(30, 0), sample)
	var q perf.Batch
	var got []string
	for _, until := range []tracefs.Time{15, 50} {
		q.Begin()
		for _, r := range []*perf.Ring{a.Ring, b.Ring} {
			if err := q.Collect(r, until, func(perf.Loss) {}); err != nil {
				t.Fatal(err)
			}
		}
		q.Sort()
		for _, raw := range q.Until(until) {
			var r perf.Record
			if _, err := (perf.Layout{}).Decode(raw, &r); err != nil {
				t.Fatal(err)
			}
			if r.Type == unix.PERF_RECORD_SAMPLE && (len(r.Raw) != 4 || raw[len(raw)-1] != 0) {
				t.Errorf("the sample is %x", raw)
			}
			got = append(got, fmt.Sprintf("%d beside=%v data=%v inode=%d ID=%d", r.Time, r.Beside, r.Data(), r.Inode, len(r.BuildID)))
		}
	}
	want := []string{
		"10 beside=true data=false inode=33 ID=0", "11 beside=false data=false inode=33 ID=0",
		"20 beside=true data=true inode=33 ID=0",
		"30 beside=true data=false inode=33 ID=0", "31 beside=false data=false inode=33 ID=0",
		"40 beside=false data=false inode=0 ID=0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
