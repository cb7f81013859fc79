package bpffutex

import (
	"encoding/binary"
	"runtime"
)

// MaxCopy is the most that is copied of a stack, MAX_COPY of futex.bpf.c.
const MaxCopy = 127 * 512

// MaxWords is the most words of a known stack, WORDS of futex.bpf.c.
const MaxWords = 128

// Place is where a stack is: of a thread at PC with the stack pointer SP, in a program (see Futex).
type Place struct{ PC, SP, Memory, Born uint64 }

// Word is 8 bytes of a stack, At bytes from the stack pointer.
type Word struct {
	At    uint32
	Value uint64
}

// Register is a register by its number in DWARF.
type Register struct {
	Number uint8
	Value  uint64
}

// Known is what a stack is recognized by: how much code is mapped, by which changes (see Wait), and
// the registers and words that led to its frames.
type Known struct {
	Code, Changes uint64
	Registers     []Register // of those that functions keep, each once
	Words         []Word
}

// Copy is a thread as it was when its wait ended: its registers of user space, and its stack from
// SP on. Asked is how many bytes of that should have been copied: there are less if the stack ends
// before that, or is not in memory. It is valid until the next wait is read.
type Copy struct {
	PC, SP uint64
	Stack  []byte
	Asked  uint32

	layout *layout
	regs   []byte // struct pt_regs
}

// layout is where struct pt_regs of an architecture has registers: those that have a number in DWARF,
// by that (arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h).
type layout struct {
	size   uint32 // that is kept
	at     []uint16
	sp, pc uint8
	kept   []uint8 // that functions keep, in the order of KEPT of futex.bpf.c
}

var layouts = map[string]*layout{
	"amd64": {size: 168, at: []uint16{80, 96, 88, 40, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0, 128}, sp: 7, pc: 16, kept: []uint8{15, 14, 13, 12, 6, 3}},
	"arm64": {size: 272, at: consecutive(33), sp: 31, pc: 32, kept: []uint8{19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}},
}

// consecutive returns the places of so many registers of 8 bytes.
func consecutive(n int) (at []uint16) {
	for i := range n {
		at = append(at, uint16(8*i))
	}
	return at
}

// decode takes what follows the frames of a record of a machine with a layout, nil if that is not
// known. ok is false if it has another size.
func (c *Copy) decode(l *layout, b []byte, copied, asked uint32) (ok bool) {
	if l == nil || copied > MaxCopy || uint64(len(b)) < uint64(l.size)+uint64(copied) {
		return false
	}
	*c = Copy{Stack: b[l.size : l.size+copied], Asked: asked, layout: l, regs: b[:l.size]}
	c.SP, c.PC = c.register(l.sp), c.register(l.pc)
	return true
}

func (c *Copy) register(n uint8) uint64 {
	return binary.NativeEndian.Uint64(c.regs[c.layout.at[n]:])
}

// Registers calls set for each register that is known, with its number in DWARF.
func (c *Copy) Registers(set func(number uint8, value uint64)) {
	for n := range c.layout.at {
		set(uint8(n), c.register(uint8(n)))
	}
}

// NewCopy makes a Copy of registers by their numbers in DWARF, for sources that are not of a kernel.
func NewCopy(regs map[uint8]uint64, stack []byte, asked uint32) *Copy {
	l := layouts[runtime.GOARCH]
	c := &Copy{Stack: stack, Asked: asked, layout: l, regs: make([]byte, l.size)}
	for n, v := range regs {
		binary.NativeEndian.PutUint64(c.regs[l.at[n]:], v)
	}
	c.SP, c.PC = c.register(l.sp), c.register(l.pc)
	return c
}
