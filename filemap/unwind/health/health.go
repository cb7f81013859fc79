// Package health says how far stacks through an ELF file can be followed: by the
// kernel, which knows frame pointers only, and by package unwind. Package examine
// finds that out; these are the values, for what prints them.
package health

import (
	"debug/elf"

	"ustack/filemap/elfid"
)

// Table is what a file has of one kind of table.
type Table struct {
	// Present: there is one that can be read. Indexed: with an index by
	// address, or sorted.
	Present, Indexed bool
	// Functions is how many pieces of code it is about.
	Functions int
	// Covered is the share of the file's code that it is about, from 0 to 1.
	Covered float64
	// Version is the version of .sframe.
	Version int
}

// Names says which functions of a file have names.
type Names uint8

const (
	// NoNames: none.
	NoNames Names = iota
	// Exported functions, by .dynsym.
	Exported
	// Packed functions, by .gnu_debugdata, and exported ones.
	Packed
	// All, by .symtab.
	All
)

// String returns the section with the names, "" if there is none.
func (n Names) String() string {
	return [...]string{"", "dynsym", "debugdata", "symtab"}[min(n, All)]
}

// Report describes a file.
type Report struct {
	Machine elf.Machine
	// Wide: of 64 bits.
	Wide    bool
	BuildID elfid.ID
	// Go: the file was linked by Go. Static: it is a program that needs no dynamic
	// linker.
	Go, Static bool
	// Kernels: it is the kernel's own, the vDSO, all of whose functions are exported.
	Kernels bool

	// NoSections: there are no section headers, so neither tables nor names are found,
	// which can be there.
	NoSections bool

	// Code is how many bytes of code there are, without the linker's stubs.
	Code uint64
	// FramePointers is what the code of functions says.
	FramePointers Keep
	// Keeping of Looked functions that call others keep frame pointers.
	Keeping, Looked int

	// EHFrame, DebugFrame, SFrame and GoTable are the tables of the file itself.
	EHFrame, DebugFrame, SFrame, GoTable Table
	// Damaged are the tables that are there and cannot be read, with why.
	Damaged []string
	// Covered is the share of the code that any of these tables is about, from 0
	// to 1; Missing is how many bytes they leave out, and Gap is the largest piece
	// of those.
	Covered float64
	Missing uint64
	Gap     Gap
	// Plain: the unwinder goes by frame pointers where no table is.
	Plain bool
	// Followed is the share of the calls in code without a table whose caller is found by
	// following that code, from 0 to 1, by a sample of them.
	Followed float64
	// Reach is the share of the calls of the file whose callers the unwinder finds,
	// from 0 to 1, estimated by a sample of the functions.
	Reach float64

	// Names are the names in the file itself.
	Names Names
	// DebugInfo: there is .debug_info. DebugLink is the name of the separate
	// debug file, "" if the file names none.
	DebugInfo bool
	DebugLink string
	// Separate is what the separate debug file has; zero if there is none.
	Separate Separate
}

// StartFiles is about how much code of the compiler's own start files a program or
// library has, in bytes, for which there is no information, and in which no thread waits.
const StartFiles = 384

// Gap is code that no table is about.
type Gap struct {
	Start, End uint64 // addresses; End is not in it
	// Section is the section that it is in, "" if the file has none.
	Section string
}

// Separate is what a separate debug file has.
type Separate struct {
	// Found: there is one.
	Found bool
	// DebugInfo: it has .debug_info.
	DebugInfo bool
	Names     Names
	// DebugFrame is its .debug_frame.
	DebugFrame Table
}

// Keep is whether code keeps frame pointers.
type Keep uint8

const (
	// Unknown: there is too little code to decide.
	Unknown Keep = iota
	// Kept by seven of ten functions that call others: all but the compiler's
	// start files in a small program.
	Kept
	// Dropped: by six of ten at least. The others need them, for a frame whose
	// size varies.
	Dropped
	// Mixed: neither.
	Mixed
)

// String returns one word.
func (k Keep) String() string {
	return [...]string{"unknown", "kept", "dropped", "mixed"}[min(k, Mixed)]
}
