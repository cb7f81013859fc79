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
		pids []int
		brk  uint64
		end  uint64
	}{
		{"unknown", func() {}, []int{7}, 0x1000, 0x1000 + heapReach},
		{"still unknown", func() {}, []int{7}, 0x2000, 0x2000 + heapReach},
		{"high", func() {}, []int{7}, math.MaxUint64 - 1, math.MaxUint64},
		{"a program begins", func() { h.began(7) }, []int{7}, 0x9000, 0},
		{"it shrinks", func() {}, []int{7}, 0x5000, 0x9000},
		{"and grows again", func() {}, []int{7}, 0x8000, 0x9000},
		{"a child", func() { h.forked(7, 8) }, []int{8}, 0x1000, 0x9000},
		{"grows", func() {}, []int{8}, 0xa000, 0x9000},
		{"not its parent", func() {}, []int{7}, 0x1000, 0x9000},
		{"both share the memory", func() {}, []int{7, 8}, 0xb000, 0xa000},
		{"and it shrinks", func() {}, []int{8, 7}, 0x1000, 0xb000},
		{"they part", func() {}, []int{7}, 0x1000, 0xb000},
		{"of one it is unknown", func() {}, []int{7, 99}, 0x1000, 0x1000 + heapReach},
		{"executes", func() { h.began(8) }, []int{8}, 0x1000, 0},
		{"a child of an unknown one", func() { h.forked(99, 8) }, []int{8}, 0x1000, 0x1000 + heapReach},
		{"moved", func() { h.moved([]int{7}) }, []int{7}, 0x1000, math.MaxUint64},
		{"moved by one of them", func() { h.began(7); h.began(8); h.moved([]int{7, 8}) }, []int{8}, 0x1000, math.MaxUint64},
		{"ended", func() { h.forget(7) }, []int{7}, 0x1000, 0x1000 + heapReach},
		{"lost", func() { h.began(7); h.lost() }, []int{7}, 0x1000, 0x1000 + heapReach},
	} {
		step.do()
		if end := h.brk(step.pids, step.brk); end != step.end {
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
