package callsite

import (
	"debug/elf"
	"encoding/binary"
)

// StepKind is where an instruction leads.
type StepKind uint8

const (
	// Straight is an instruction that the next one follows.
	Straight StepKind = iota
	// Call calls Target, Jump goes there, perhaps on a condition.
	Call
	Jump
	// CallIndirect and JumpIndirect go where a register or memory says.
	CallIndirect
	JumpIndirect
)

// Step is one instruction that is a call or a jump.
type Step struct {
	Addr uint64
	Len  int
	Kind StepKind
	// Target is the address that a Call or Jump leads to; if Slot is set, the
	// address of the pointer that an indirect one reads.
	Target uint64
	Slot   bool
}

// End returns where the next instruction is: where a call returns to.
func (s *Step) End() uint64 { return s.Addr + uint64(s.Len) }

// Flow calls f for the calls and jumps of code that lies at an address, in
// order. It is false if there is something in the code that it cannot decode;
// then what came before is not to be trusted either. Known machines are x86-64
// and arm64.
func Flow(m elf.Machine, code []byte, addr uint64, f func(Step)) bool {
	return flow(m, code, addr, false, f)
}

// Scan is Flow for code with data in between: it goes on after what it cannot decode,
// so what it finds there need not be so.
func Scan(m elf.Machine, code []byte, addr uint64, f func(Step)) {
	flow(m, code, addr, true, f)
}

func flow(m elf.Machine, code []byte, addr uint64, on bool, f func(Step)) bool {
	decode := decodeX86
	switch m {
	case elf.EM_X86_64:
	case elf.EM_AARCH64:
		decode = decodeARM64
	default:
		return false
	}
	for len(code) > 0 {
		s, n, ok := decode(code, addr)
		switch {
		case !ok && !on:
			return false
		case !ok:
			n = 1
		case s.Kind != Straight:
			f(s)
		}
		code, addr = code[n:], addr+uint64(n)
	}
	return true
}

// decodeARM64 decodes one instruction of arm64, by the "Arm Architecture
// Reference Manual", C4.1. All other words are no branches.
func decodeARM64(code []byte, addr uint64) (Step, int, bool) {
	const size = 4
	if len(code) < size {
		return Step{}, 0, false
	}
	w := binary.LittleEndian.Uint32(code)
	s := Step{Addr: addr, Len: size}
	// signed is a field of so many bits that ends at bit from, in words.
	signed := func(from, bits int) uint64 { return uint64(int64(int32(w<<(32-from-bits))>>(32-bits)) * size) }
	switch {
	case w>>26 == 0x25: // bl
		s.Kind, s.Target = Call, addr+signed(0, 26)
	case w>>26 == 0x05: // b
		s.Kind, s.Target = Jump, addr+signed(0, 26)
	case w>>24 == 0x54, w>>25&0x3f == 0x1a: // b.cond, bc.cond, cbz, cbnz
		s.Kind, s.Target = Jump, addr+signed(5, 19)
	case w>>25&0x3f == 0x1b: // tbz, tbnz
		s.Kind, s.Target = Jump, addr+signed(5, 14)
	case w&0xfffffc1f == 0xd63f0000, w&0xfefff800 == 0xd63f0800: // blr, blraa and its like
		s.Kind = CallIndirect
	case w&0xfffffc1f == 0xd61f0000, w&0xfefff800 == 0xd61f0800: // br, braa and its like
		s.Kind = JumpIndirect
	}
	return s, size, true
}

// SetsFrame reports whether code of arm64 makes x29 point to the stack, as
// functions with a frame record do (add x29, sp, #imm).
func SetsFrame(code []byte) bool {
	for ; len(code) >= 4; code = code[4:] {
		if binary.LittleEndian.Uint32(code)&0xffc003ff == 0x910003fd {
			return true
		}
	}
	return false
}

// Stub finds the pointer that a linker's stub jumps by: an entry of .plt and
// its like.
func Stub(m elf.Machine, code []byte, addr uint64) (slot uint64, ok bool) {
	if m == elf.EM_AARCH64 {
		return stubARM64(code, addr)
	}
	Flow(m, code, addr, func(s Step) { // what follows the stub may be cut off
		if slot == 0 && s.Kind == JumpIndirect && s.Slot {
			slot = s.Target
		}
	})
	return slot, slot != 0
}

// StubSize is how many bytes of code Stub looks at.
const StubSize = 16

// stubARM64 reads [bti c;] adrp x16, page; ldr x17, [x16, #low].
func stubARM64(code []byte, addr uint64) (slot uint64, ok bool) {
	for ; len(code) >= 8; code, addr = code[4:], addr+4 {
		page, load := binary.LittleEndian.Uint32(code), binary.LittleEndian.Uint32(code[4:])
		if page&0x9f00001f != 0x90000010 || load&0xffc003ff != 0xf9400211 {
			continue
		}
		high := int64(int32(page<<8)>>13)<<2 | int64(page>>29&3)
		return addr&^0xfff + uint64(high<<12) + uint64(load>>10&0xfff)*8, true
	}
	return 0, false
}
