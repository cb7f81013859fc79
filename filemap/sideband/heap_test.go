package sideband

import (
	"math"
	"testing"
)

// TestHeaps: a call of brk can unmap what is below the highest end that the heap has had,
// as far as that is known.
func TestHeaps(t *testing.T) {
	var h heaps
	for _, step := range []struct {
		name string
		do   func()
		pid  int
		brk  uint64
		end  uint64
	}{
		{"unknown", func() {}, 7, 0x1000, 0x1000 + heapReach},
		{"still unknown", func() {}, 7, 0x2000, 0x2000 + heapReach},
		{"high", func() {}, 7, math.MaxUint64 - 1, math.MaxUint64},
		{"a program begins", func() { h.began(7) }, 7, 0x9000, 0},
		{"it shrinks", func() {}, 7, 0x5000, 0x9000},
		{"and grows again", func() {}, 7, 0x8000, 0x9000},
		{"a child", func() { h.forked(7, 8) }, 8, 0x1000, 0x9000},
		{"grows", func() {}, 8, 0xa000, 0x9000},
		{"not its parent", func() {}, 7, 0x1000, 0x9000},
		{"executes", func() { h.began(8) }, 8, 0x1000, 0},
		{"a child of an unknown one", func() { h.forked(99, 8) }, 8, 0x1000, 0x1000 + heapReach},
		{"moved", func() { h.moved(7) }, 7, 0x1000, math.MaxUint64},
		{"ended", func() { h.forget(7) }, 7, 0x1000, 0x1000 + heapReach},
		{"lost", func() { h.began(7); h.lost() }, 7, 0x1000, 0x1000 + heapReach},
	} {
		step.do()
		if end := h.brk(step.pid, step.brk); end != step.end {
			t.Errorf("%s: up to %#x, not %#x", step.name, end, step.end)
		}
	}
	for pid := range 3 * maxHeaps {
		h.began(pid)
	}
	if len(h.top) > maxHeaps {
		t.Errorf("%d heaps are kept", len(h.top))
	}
}
