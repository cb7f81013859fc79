package unwind

import (
	"debug/elf"
	"testing"
)

func TestFromPerf(t *testing.T) {
	// rax, rbx, rbp, rsp, rip, flags, r8, r15
	r := FromPerf(elf.EM_X86_64, 1<<0|1<<1|1<<6|1<<7|1<<8|1<<9|1<<16|1<<23, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
	want := map[uint8]uint64{0: 1, 3: 2, AMD64FP: 3, AMD64SP: 4, AMD64PC: 5, 8: 7, 15: 8}
	for n := range uint8(40) {
		v, ok := r.Get(n)
		if w, has := want[n]; ok != has || v != w {
			t.Errorf("register %d: %d, %v, want %d, %v", n, v, ok, w, has)
		}
	}
	r = FromPerf(elf.EM_AARCH64, 1<<29|1<<30|1<<31|1<<32, []uint64{1, 2, 3})
	if v, ok := r.Get(ARM64SP); v != 3 || !ok {
		t.Error(v, ok)
	}
	if _, ok := r.Get(ARM64PC); ok {
		t.Error("a value that is not there")
	}
}
