package perf

import (
	"math/bits"
	"slices"
)

// ABI is the ABI of a thread when it was sampled (enum perf_sample_regs_abi).
type ABI uint8

// The ABIs of threads.
const (
	ABINone ABI = iota // a thread of the kernel: no registers
	ABI32
	ABI64
)

// String returns the ABI in words.
func (a ABI) String() string {
	switch a {
	case ABINone:
		return "none"
	case ABI32:
		return "32-bit"
	case ABI64:
		return "64-bit"
	}
	return "unknown"
}

// Machine is an instruction set, by its name in GOARCH, with its own DWARF
// numbers of registers.
type Machine string

// The machines that samples come from.
const (
	AMD64 Machine = "amd64"
	I386  Machine = "386" // a 32-bit thread on amd64
	ARM64 Machine = "arm64"
	ARM   Machine = "arm" // a 32-bit thread on arm64
)

// MaxRegisters is how many numbers registers have at most.
const MaxRegisters = 33

// Registers are user-space registers, by the DWARF numbers of their machine: the
// psABI of amd64 (figure 3.36), of i386 (table 2.14), AADWARF64 and AADWARF32. The
// program counter of arm64 has the number 32, as in gdb and libunwind. The zero value
// has none.
type Registers struct {
	Machine Machine
	known   uint64
	values  [MaxRegisters]uint64
}

// Set sets the register with a number. One that no machine has is ignored.
func (r *Registers) Set(number int, value uint64) {
	if number >= 0 && number < MaxRegisters {
		r.known |= 1 << number
		r.values[number] = value
	}
}

// Get returns the register with a number; ok is false if it is unknown.
func (r *Registers) Get(number int) (value uint64, ok bool) {
	if number < 0 || number >= MaxRegisters || r.known>>number&1 == 0 {
		return 0, false
	}
	return r.values[number], true
}

// Known returns how many registers are known.
func (r *Registers) Known() int { return bits.OnesCount64(r.known) }

// special are the numbers of the stack pointer and the program counter.
var special = map[Machine]struct{ sp, pc int }{AMD64: {7, 16}, I386: {4, 8}, ARM64: {31, 32}, ARM: {13, 15}}

// SP returns the stack pointer.
func (r *Registers) SP() (value uint64, ok bool) {
	n, ok := special[r.Machine]
	if !ok {
		return 0, false
	}
	return r.Get(n.sp)
}

// PC returns the program counter: of a system call the instruction after it.
func (r *Registers) PC() (value uint64, ok bool) {
	n, ok := special[r.Machine]
	if !ok {
		return 0, false
	}
	return r.Get(n.pc)
}

// registerSet is how the kernel numbers the registers of a machine
// (arch/*/include/uapi/asm/perf_regs.h): by the place of each in a sample, which is the
// order of its bit in mask, its DWARF number as a 64-bit and as a 32-bit thread, -1 for
// none.
type registerSet struct {
	mask       uint64
	wide       Machine
	dwarf      []int8
	narrow     Machine
	dwarf32    []int8
	unreported []int // see drop
}

// registerSets has the registers of the machines we run on, by GOARCH.
var registerSets = map[string]registerSet{
	"amd64": {
		mask: (1<<24 - 1) &^ (0xf << 12), // all but ds, es, fs and gs, which are refused
		// ax bx cx dx si di bp sp ip flags cs ss r8…
		wide: AMD64, dwarf: []int8{0, 3, 2, 1, 4, 5, 6, 7, 16, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15},
		narrow: I386, dwarf32: []int8{0, 3, 1, 2, 6, 7, 5, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
		unreported: []int{3, 12, 13, 14, 15},
	},
	"arm64": {
		mask: 1<<33 - 1, // x0…x30 sp pc
		wide: ARM64, dwarf: identity(33),
		// sp and lr come in the places of arm64; 13 and 14 have them, too.
		narrow: ARM, dwarf32: append(append(identity(15), slices.Repeat([]int8{-1}, 17)...), 15),
	},
}

// identity is 0 to n-1.
func identity(n int) []int8 {
	list := make([]int8, n)
	for i := range list {
		list[i] = int8(i)
	}
	return list
}

// registerMask has a bit for each register of user space that a sample has, by the
// kernel's numbers.
func registerMask(arch string) uint64 { return registerSets[arch].mask }

// decode takes the registers of a sample of a machine.
func (r *Registers) decode(arch string, abi ABI, at func(i int) uint64) {
	*r = Registers{}
	set := registerSets[arch]
	numbers := set.dwarf
	r.Machine = set.wide
	if abi == ABI32 {
		r.Machine, numbers = set.narrow, set.dwarf32
	}
	for i, n := range numbers {
		if n >= 0 {
			r.Set(int(n), at(i))
		}
	}
	if abi == ABI64 {
		r.drop(set.unreported)
	}
}

// drop forgets registers that the kernel does not report: before Linux 5.11 those
// that a system call did not save were all ones (perf_get_regs_user in
// arch/x86/kernel/perf_regs.c), before 4.18 rbp as well.
func (r *Registers) drop(unreported []int) {
	const none = ^uint64(0)
	if len(unreported) == 0 || slices.ContainsFunc(unreported, func(n int) bool { return r.values[n] != none }) {
		return
	}
	for _, n := range unreported {
		r.known &^= 1 << n
	}
	const rbp = 6
	if r.values[rbp] == none {
		r.known &^= 1 << rbp
	}
}

// NewRegisters returns the registers of a thread of which only the stack pointer and
// the program counter are known. arch is the kernel's, by its name in GOARCH.
func NewRegisters(arch string, abi ABI, sp, pc uint64) Registers {
	set := registerSets[arch]
	r := Registers{Machine: set.wide}
	if abi == ABI32 {
		r.Machine = set.narrow
	}
	if n, ok := special[r.Machine]; ok {
		r.Set(n.sp, sp)
		r.Set(n.pc, pc)
	}
	return r
}
