package sideband

import (
	"runtime"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestMemory measures: a process that has ended takes at most 2 KB while it is
// kept.
func TestMemory(t *testing.T) {
	const processes, limit = 10000, 2 << 10
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	b := fakeBand()
	d, records := new(Drained), []byte(nil)
	for pid := range processes {
		records = appendProcess(records, 100+pid, uint64(pid)*1000)
	}
	if err := b.batch.Add(records); err != nil {
		t.Fatal(err)
	}
	d.Until = tracefs.Time(1e12)
	b.apply(d)
	b.batch, records = perf.Batch{}, nil
	each := (heap() - before) / processes
	t.Logf("%d bytes each", each)
	if each > limit {
		t.Errorf("%d bytes each, at most %d wanted", each, limit)
	}
	runtime.KeepAlive(b)
}
