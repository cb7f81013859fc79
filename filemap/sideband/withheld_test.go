package sideband

import (
	"testing"

	"ustack/tracefs/perf"
)

// TestWithheld: all ranges that a process has marked are kept, in one if there are many, and
// what is kept is bounded.
func TestWithheld(t *testing.T) {
	var w withheld
	has := func(pid int, addr uint64) bool {
		for _, r := range w.by[pid] {
			if r.start <= addr && addr < r.end {
				return true
			}
		}
		return false
	}
	for i := range uint64(3 * maxWithheld) {
		for range 2 {
			if w.add(7, taken{i << 16, i<<16 + 0x1000}) {
				t.Fatalf("range %d: others were forgotten", i)
			}
		}
		if n := len(w.by[7]); n > maxWithheld {
			t.Fatalf("%d ranges", n)
		}
	}
	for i := range uint64(3 * maxWithheld) {
		if !has(7, i<<16+0xfff) {
			t.Errorf("range %d is missing", i)
		}
	}
	w.forget(7)
	if has(7, 0) {
		t.Error("ranges stay when a program begins")
	}
	forgotten := false
	for pid := range 3 * maxWithholding {
		forgotten = w.add(pid, taken{0, 1}) || forgotten
	}
	if !forgotten || len(w.by) > maxWithholding {
		t.Errorf("%d processes are kept; that others were forgotten: %t", len(w.by), forgotten)
	}
}

// TestAIORings: a ring is as large as what its thread has mapped in io_setup; of others the
// size is the largest possible one.
func TestAIORings(t *testing.T) {
	var a aioRings
	data := func(pid, tid int, addr, size uint64) {
		a.mapped(&perf.Record{PID: pid, TID: tid, Addr: addr, Len: size}, []int{pid})
		delete(a.setups, tid)
	}
	setup := func(pid, tid int) { a.begin(&perf.Record{PID: pid, TID: tid}) }
	for _, step := range []struct {
		name string
		do   func()
		want uint64
	}{
		{"unknown", func() {}, ringReach},
		{"data of a thread that is in no io_setup", func() { data(7, 7, 0x10000, 0x2000) }, ringReach},
		{"of another thread", func() { setup(7, 7); data(7, 8, 0x10000, 0x2000) }, ringReach},
		{"the ring", func() { data(7, 7, 0x10000, 0x2000) }, 0x2000},
		{"data over it", func() { data(7, 7, 0x10000, 0x9000) }, 0x2000},
		{"a smaller one there", func() { setup(7, 7); data(7, 7, 0x10000, 0x1000) }, 0x2000},
		{"a larger one there", func() { setup(7, 7); data(7, 7, 0x10000, 0x3000) }, 0x3000},
		{"moved there", func() { a.moved([]int{7, 8}, 0x10000, 0x11000) }, ringReach},
		{"one that stays beside what is moved", func() { setup(7, 7); data(7, 7, 0x10000, 0x3000); a.moved([]int{7}, 0xf000, 0x10000) }, 0x3000},
		{"moved there after something else", func() { a.moved([]int{7, 8}, 0xf000, 0x11000) }, ringReach},
		{"a smaller one of a process that shares the memory", func() { setup(7, 7); data(7, 7, 0x10000, 0x5000); setup(8, 8); data(8, 8, 0x10000, 0x1000) }, 0x5000},
		{"a larger one of that", func() { setup(8, 8); data(8, 8, 0x10000, 0x8000) }, 0x8000},
		{"its end", func() { a.forget(8) }, 0x5000},
		{"a program begins", func() { a.forget(7) }, ringReach},
		{"lost", func() { setup(7, 7); data(7, 7, 0x10000, 0x1000); a.lost() }, ringReach},
	} {
		step.do()
		if got := a.size([]int{7, 8}, 0x10000); got != step.want {
			t.Errorf("%s: %#x, want %#x", step.name, got, step.want)
		}
	}
	for i := range 3 * maxRingProcesses {
		setup(i, i)
		setup(i, -i)
		data(i, i, 0x10000, 0x1000)
		setup(1, 1)
		data(1, 1, uint64(i)<<12, 0x1000)
	}
	if len(a.by) > maxRingProcesses || len(a.setups) > maxRingProcesses || len(a.by[1]) > maxRings {
		t.Errorf("%d processes, %d threads, %d rings of one are kept", len(a.by), len(a.setups), len(a.by[1]))
	}
}
