package unwind

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"

	"ustack/filemap"
)

// machineSpace has code that keeps frame pointers below 0x20000, that of a virtual machine
// above, and no other.
type machineSpace struct{ runtime Runtime }

func (s *machineSpace) Find(addr uint64) (m Mapping, ok bool) {
	switch {
	case addr >= 0x10000 && addr < 0x20000:
		return Mapping{Start: 0x10000, End: 0x20000, Exec: true, JIT: true}, true
	case addr >= 0x20000 && addr < 0x30000:
		return Mapping{Start: 0x20000, End: 0x30000, Exec: true, Runtime: s.runtime}, true
	}
	return m, false
}

// fakeMachine knows code with frames of 32 bytes, which end with the caller's frame pointer
// and the return address, up to unknown.
type fakeMachine struct {
	code    *filemap.Code
	unknown uint64
	turn    bool // a frame is below the one before
}

func (f *fakeMachine) Caller(pc uint64, regs *Registers, stack Words) Called {
	if pc >= f.unknown {
		return Called{}
	}
	sp, _ := regs.Get(AMD64SP)
	fp, end, ok := stack.Word(sp + 16)
	if !ok {
		return Called{Known: true, Code: f.code, End: end}
	}
	to, end, ok := stack.Word(sp + 24)
	*regs = Registers{}
	regs.Set(AMD64FP, fp)
	regs.Set(AMD64SP, sp+32)
	if f.turn {
		regs.Set(AMD64SP, sp-32)
	}
	return Called{Known: true, Code: f.code, To: to, OK: ok, End: end}
}

// TestRuntime: a stack goes through code of a virtual machine and on in other code, with the
// functions of the machine's frames; what the machine does not know is no frame.
func TestRuntime(t *testing.T) {
	const base = 0x7000
	memory := make([]byte, 0x200)
	put := func(addr, v uint64) { binary.LittleEndian.PutUint64(memory[addr-base:], v) }
	put(base+0x10, base+0x90) // the frame of the innermost function
	put(base+0x18, 0x20100)
	put(base+0x20+16, base+0x90) // two of the machine
	put(base+0x20+24, 0x20200)
	put(base+0x40+16, base+0x90)
	put(base+0x40+24, 0x10200)
	put(base+0x90, 0)
	put(base+0x98, 0x10300)
	code := &filemap.Code{Function: "f", Runtime: true}
	for name, test := range map[string]struct {
		machine fakeMachine
		bytes   int
		pcs     []uint64
		why     Why
		addr    uint64
	}{
		"whole":   {fakeMachine{code, 0x30000, false}, len(memory), []uint64{0x10100, 0x20100, 0x20200, 0x10200, 0x10300}, Root, 0},
		"unknown": {fakeMachine{code, 0x20200, false}, len(memory), []uint64{0x10100, 0x20100}, NoMap, 0x20200},
		"short":   {fakeMachine{code, 0x30000, false}, 0x50, []uint64{0x10100, 0x20100, 0x20200}, Short, base + 0x50},
		"down":    {fakeMachine{code, 0x30000, true}, len(memory), []uint64{0x10100, 0x20100}, Contradiction, base},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Machine: elf.EM_X86_64, Space: &machineSpace{&test.machine}, Stack: Stack{At: base, Bytes: memory[:test.bytes]}}
			in.Regs.Set(AMD64PC, 0x10100)
			in.Regs.Set(AMD64SP, base)
			in.Regs.Set(AMD64FP, base+0x10)
			frames, end := New(0).Unwind(&in, nil)
			var pcs []uint64
			for i := range frames {
				f := &frames[i]
				pcs = append(pcs, f.PC)
				if inside := f.PC >= 0x20000; (f.Code == code) != inside || i > 1 && frames[i-1].PC >= 0x20000 && f.How != VirtualMachine {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(pcs, test.pcs) || end.Why != test.why || end.Addr != test.addr {
				t.Errorf("%#x, %v %#x %s; want %#x, %v %#x", pcs, end.Why, end.Addr, end.Detail, test.pcs, test.why, test.addr)
			}
		})
	}
	in := Input{Machine: elf.EM_X86_64, Space: &machineSpace{&fakeMachine{code, 0x30000, false}}, Stack: Stack{At: base, Bytes: memory}}
	in.Regs.Set(AMD64PC, 0x20100)
	in.Regs.Set(AMD64SP, base)
	if frames, end := New(0).Unwind(&in, nil); len(frames) != 0 || end.Why != NoMap {
		t.Errorf("interrupted in code of the machine: %v, %v", frames, end.Why)
	}
}
