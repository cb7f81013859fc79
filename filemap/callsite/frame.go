package callsite

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// KeepsFrame reports whether code of a function makes the frame pointer point to its
// frame (psABI of x86-64, 3.2.2; AAPCS64, 6.4.6), as code that is built with frame
// pointers does: push %rbp; mov %rsp,%rbp, perhaps with other instructions in between
// that leave the stack alone; or, as Go does, mov %rbp,n(%rsp); lea n(%rsp),%rbp; or
// add x29, sp, n on arm64. Code that uses the register for itself is not taken for
// that: it saves other registers in between.
func KeepsFrame(m elf.Machine, code []byte) bool {
	switch m {
	case elf.EM_AARCH64:
		return SetsFrame(code) || bytes.Contains(code, []byte("\xfd\x23\x00\xd1")) // sub x29, sp, #8, in Go's
	case elf.EM_X86_64:
		return keepsFrameX86(code)
	}
	return false
}

func keepsFrameX86(code []byte) (keeps bool) {
	var pushed bool
	var saved int64 = -1 // where %rbp has been saved by mov
	eachX86(code, 0, func(d *x86, s *Step) bool {
		one := d.code[:d.n]
		switch {
		case string(one) == "\x55": // push %rbp
			pushed = true
		case string(one) == "\x48\x89\xe5" || string(one) == "\x48\x8b\xec": // mov %rsp,%rbp
			keeps = pushed
		case saved >= 0 && fromStack(one, "\x48\x8d\x6c\x24", "\x48\x8d\xac\x24") == saved: // lea n(%rsp),%rbp
			keeps = true
		case d.changesStack() || s.Kind != Straight:
			pushed, saved = false, -1
		default:
			saved = max(saved, fromStack(one, "\x48\x89\x6c\x24", "\x48\x89\xac\x24")) // mov %rbp,n(%rsp)
		}
		return !keeps
	})
	return keeps
}

// fromStack is n of an instruction that begins with short or long and has n(%rsp), -1
// of another one.
func fromStack(one []byte, short, long string) int64 {
	if rest, ok := bytes.CutPrefix(one, []byte(short)); ok && len(rest) == 1 {
		return int64(int8(rest[0]))
	}
	if rest, ok := bytes.CutPrefix(one, []byte(long)); ok && len(rest) == 4 {
		return int64(int32(binary.LittleEndian.Uint32(rest)))
	}
	return -1
}

// changesStack reports whether an instruction is push, pop, or arithmetic of %rsp with
// a number.
func (d *x86) changesStack() bool {
	if !d.plain() || d.escaped {
		return false
	}
	return d.op >= 0x50 && d.op <= 0x5f || (d.op == 0x81 || d.op == 0x83) && d.rm>>6 == 3 && d.operand() == rsp
}
