// Package unwind finds the callers of a thread: from its registers, bytes of its
// stack and what was mapped at that time.
//
// It follows the tables in which files describe their code: .eh_frame (Linux
// Standard Base Core 5.0, 10.6), .debug_frame (DWARF 5, 6.4; "DWARF for the Arm
// 64-bit Architecture", 4.4 for signed return addresses), .sframe ("The SFrame
// format", versions 1 to 3), the table of Go's runtime; the code itself
// where there is no table on x86-64 (package follow); frame pointers in code of Go and of
// JIT compilers, and of arm64 without a table (psABI of x86-64, 3.2.2; AAPCS64, 6.4.6); and the
// layout of the kernel's signal frames (arch/x86/include/asm/sigframe.h,
// arch/arm64/kernel/signal.c). What is known of code that a process has made is what its
// Runtime says.
//
// A frame is one only if its address is proven to be code that was called: it
// lies in a mapping of code, and a call stands before it, or a signal handler's
// return, or the end of a goroutine. A frame that does not fit ends the stack,
// and End says why: there is never a guess.
package unwind

import (
	"debug/elf"

	"ustack/filemap"
	"ustack/filemap/unwind/table"
)

// How is how a frame was found.
type How uint8

const (
	// Given: the thread was there, by its registers.
	Given How = iota
	// CFI: by .eh_frame or .debug_frame of the frame that it called.
	CFI
	// SFrame: by .sframe.
	SFrame
	// GoTable: by the table of Go's runtime (.gopclntab).
	GoTable
	// FramePointer: by the frame pointer, where there is no table. If the frame
	// before it is code of a JIT compiler and is the Given one or an interrupted
	// one, a caller in between can be missing: a function that has not yet set up
	// its frame has none, and there is no code to look at.
	FramePointer
	// Signal: by the registers that the kernel kept for a signal handler.
	Signal
	// VirtualMachine: by what a Runtime knows of the frame that it called.
	VirtualMachine
	// Code: by the code of the frame that it called, which no table describes: it was
	// followed to where it returns, or from where the function begins.
	Code
	howCount
)

// String returns one word.
func (h How) String() string {
	if h >= howCount {
		return "?"
	}
	return [...]string{"given", "cfi", "sframe", "go", "fp", "signal", "hotspot", "code"}[h]
}

// Why is why a stack ends.
type Why uint8

const (
	// Root: it is complete. Nothing has called the last frame.
	Root Why = iota
	// Short: it needs bytes of the stack that are not in the copy.
	Short
	// NoInformation: File has no tables for the code of the last frame, or
	// malformed ones.
	NoInformation
	// NoMap: Addr is code of no file and no known JIT compiler, or of a file that
	// cannot be read, or no mapping is known there.
	NoMap
	// Contradiction: a table or the frame pointer leads to an impossible frame.
	Contradiction
	// Limit: there are more frames than asked for.
	Limit
	// UnknownRegister: the needed value of Register is unknown.
	UnknownRegister
	// Elsewhere: the stack continues at Addr in other memory, which is not at
	// hand: a signal stack, a coroutine.
	Elsewhere
	// Switch: the code of the last frame switches stacks.
	Switch
	whyCount
)

// String returns the text for users; File and Addr follow it.
func (w Why) String() string {
	if w >= whyCount {
		return "?"
	}
	return [...]string{
		"root reached", "copy too short", "no unwind information", "code without a map", "contradiction",
		"limit of frames", "unknown register", "other stack", "switch of stacks",
	}[w]
}

// End is where and why a stack ends.
type End struct {
	Why Why
	// File is the file of the last frame, nil if it has none.
	File *File
	// Addr is the address that Why is about: code for NoMap and Contradiction
	// of return addresses, else in the stack.
	Addr uint64
	// Want is how many more bytes of the stack a Short one needs to get one
	// frame further.
	Want uint64
	// Register is the DWARF number of an UnknownRegister.
	Register uint8
	// Detail says more, in a few words; it can be "".
	Detail string
	// Used is how many bytes of the stack from the stack pointer on have been
	// looked at.
	Used uint64
}

// Frame is a function that has not returned.
type Frame struct {
	// PC is where the thread continues in this function: a return address, or,
	// if Exact is set, an instruction that is the next to run.
	PC    uint64
	Exact bool
	// File is the file with the code, nil for code of a JIT compiler; Offset is
	// where in it PC is.
	File   *File
	Offset uint64
	How    How
	// Trampoline: a signal handler returns to the frame.
	Trampoline bool
	// SP is the stack pointer in this frame, 0 if unknown.
	SP uint64
	// Code is the function of a frame in code of a Runtime, nil if it is unknown.
	Code *filemap.Code
}

// Mapping is the mapping of an address at the time of a stack.
type Mapping struct {
	// Start and End are addresses, End the first one after.
	Start, End uint64
	// Offset is where in File Start is.
	Offset uint64
	// Exec: code can run there.
	Exec bool
	// File is nil for memory without a file. The vDSO is a file.
	File *File
	// JIT: without a file, but code of a compiler that keeps frame pointers.
	JIT bool
	// Runtime knows the code, which has no file; nil if there is none.
	Runtime Runtime
}

// Space finds what was mapped at an address at the time of a stack. ok is false
// if no mapping is known there.
type Space interface {
	Find(addr uint64) (m Mapping, ok bool)
}

// Stack is memory that a thread's stack pointer points into.
type Stack struct {
	// At is where Bytes were. Bytes are not changed.
	At    uint64
	Bytes []byte
	// Limit is where the mapping of the stack ends, 0 if unknown.
	Limit uint64
	// Read reads all of b from an address of the thread's memory, which must be
	// as it was at the time of the stack. It is called for addresses beyond
	// Bytes and can be nil.
	Read func(addr uint64, b []byte) bool
}

// Input is a thread at one time.
type Input struct {
	Machine elf.Machine
	Regs    Registers
	Stack   Stack
	Space   Space
	// Max bounds the frames; 0 is 512.
	Max int
	// AddressBits are the bits of a signed return address of arm64 that are not
	// signature; 0 is the low 48.
	AddressBits uint64
}

// Registers are the values of registers by DWARF number, as far as they are
// known. The program counter is 16 on x86-64 and 32 on arm64.
type Registers struct {
	known uint64
	v     [table.Registers]uint64
}

// DWARF numbers of registers.
const (
	AMD64FP, AMD64SP, AMD64PC          = 6, 7, 16
	ARM64FP, ARM64LR, ARM64SP, ARM64PC = 29, 30, 31, 32
)

// Set sets the value of a register.
func (r *Registers) Set(n uint8, v uint64) {
	if n < table.Registers {
		r.known |= 1 << n
		r.v[n] = v
	}
}

// forget makes a register unknown.
func (r *Registers) forget(n uint8) { r.known &^= 1 << n }

// Get returns the value of a register; ok is false if unknown.
func (r *Registers) Get(n uint8) (v uint64, ok bool) {
	if n >= table.Registers || r.known>>n&1 == 0 {
		return 0, false
	}
	return r.v[n], true
}
