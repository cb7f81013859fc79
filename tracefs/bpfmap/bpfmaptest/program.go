package bpfmaptest

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// instruction is struct bpf_insn of include/uapi/linux/bpf.h.
type instruction struct {
	code     uint8
	dst, src uint8
	off      int16
	imm      int32
}

// Operations that the program has (Documentation/bpf/standardization/instruction-set.rst).
const (
	moveReg   = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X
	moveImm   = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K
	addImm    = unix.BPF_ALU64 | unix.BPF_ADD | unix.BPF_K
	shiftImm  = unix.BPF_ALU64 | unix.BPF_RSH | unix.BPF_K
	load64    = unix.BPF_LD | unix.BPF_DW | unix.BPF_IMM
	store32   = unix.BPF_STX | unix.BPF_MEM | unix.BPF_W
	store32I  = unix.BPF_ST | unix.BPF_MEM | unix.BPF_W
	store64I  = unix.BPF_ST | unix.BPF_MEM | unix.BPF_DW
	addAtomic = unix.BPF_STX | unix.BPF_ATOMIC | unix.BPF_DW
	notEqual  = unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K
	equal     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	negative  = unix.BPF_JMP | unix.BPF_JSLT | unix.BPF_K
	jump      = unix.BPF_JMP | unix.BPF_JA
	call      = unix.BPF_JMP | unix.BPF_CALL
	exit      = unix.BPF_JMP | unix.BPF_EXIT

	helperLookup, helperUpdate, helperTask, helperStack = 1, 2, 14, 27
	stackFlags                                          = 1<<8 | 1<<10 // BPF_F_USER_STACK, BPF_F_REUSE_STACKID
)

// program returns a program that takes the stack of the threads of a process, and counts it by
// stack ID and process.
func program(tgid int, stacks, counts int) []byte {
	in := []instruction{
		{code: moveReg, dst: 6, src: 1},
		{code: call, imm: helperTask},
		{code: shiftImm, dst: 0, imm: 32},
		{code: notEqual, dst: 0, imm: int32(tgid), off: 26},
		{code: moveReg, dst: 1, src: 6},
		{code: load64, dst: 2, src: unix.BPF_PSEUDO_MAP_FD, imm: int32(stacks)}, {},
		{code: moveImm, dst: 3, imm: stackFlags},
		{code: call, imm: helperStack},
		{code: negative, dst: 0, off: 20},
		{code: store32, dst: 10, src: 0, off: -8},
		{code: store32I, dst: 10, off: -4, imm: int32(tgid)},
		{code: load64, dst: 1, src: unix.BPF_PSEUDO_MAP_FD, imm: int32(counts)}, {},
		{code: moveReg, dst: 2, src: 10}, {code: addImm, dst: 2, imm: -8},
		{code: call, imm: helperLookup},
		{code: equal, dst: 0, off: 3},
		{code: moveImm, dst: 1, imm: 1},
		{code: addAtomic, dst: 0, src: 1},
		{code: jump, off: 9},
		{code: store64I, dst: 10, off: -16, imm: 1},
		{code: load64, dst: 1, src: unix.BPF_PSEUDO_MAP_FD, imm: int32(counts)}, {},
		{code: moveReg, dst: 2, src: 10}, {code: addImm, dst: 2, imm: -8},
		{code: moveReg, dst: 3, src: 10}, {code: addImm, dst: 3, imm: -16},
		{code: moveImm, dst: 4},
		{code: call, imm: helperUpdate},
		{code: moveImm, dst: 0},
		{code: exit},
	}
	var out []byte
	for _, i := range in {
		out = append(out, i.code, i.dst|i.src<<4)
		out = binary.NativeEndian.AppendUint16(out, uint16(i.off))
		out = binary.NativeEndian.AppendUint32(out, uint32(i.imm))
	}
	return out
}
