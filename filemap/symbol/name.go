// Package symbol holds what is known of the code and the data at a place in a file:
// the function with its source line, or the reason why it has no name; a variable.
// Package symbolize finds them.
package symbol

import "ustack/filemap/elfid"

// Name names the code at a place of a file: a function, or the reason why there
// is none.
type Name struct {
	// Function is the function that the code is part of, as its symbol has it,
	// demangled. "" if there is a Reason.
	Function string
	// Offset is the distance of the frame from the function's beginning.
	Offset uint64
	// File and Line are the place in the source, "" and 0 if unknown. If
	// functions are inlined there, it is where the outermost of them is called.
	File string
	Line int
	// Inlined are the functions inlined at that place, innermost first.
	Inlined []Call
	Source  Source
	Reason  Reason
	// Inferred is set if the kernel gave no frame of the function: see
	// Skipped. Offset, File and Line are unknown then.
	Inferred bool
	// Found is the build ID of the file that was found, if Reason is
	// IDMismatch.
	Found elfid.ID
	// ID is the name's number among those of its symbolize.Symbols, which count from
	// 1; 0 for a name that they do not keep.
	ID uint64
	// Provisional is set if the same code may have another name, or none, when it is looked up
	// later.
	Provisional bool
}

// Call is one inlined function: its name, and the place in the source where
// it calls the next inner one; of the innermost, the place of the frame.
type Call struct {
	Function string
	File     string
	Line     int
}

// Source is where a function's name comes from.
type Source uint8

const (
	// NoSource is the source of a frame without a name.
	NoSource Source = iota
	// Symtab is the full symbol table of the file itself.
	Symtab
	// Dynsym is the exported symbols of the file.
	Dynsym
	// DebugData is .gnu_debugdata, the packed symbol table of the file.
	DebugData
	// DebugFile is the symbol table of the separate file with debug
	// information.
	DebugFile
	// DWARF is debug information only: no symbol table has the place.
	DWARF
	// PerfMap is the map that the program has written of the code that it makes
	// while it runs: /tmp/perf-PID.map.
	PerfMap
	// VDSO is the symbol table of the vDSO.
	VDSO
	// HotSpot is the memory of a Java virtual machine. Offset is then the index of the
	// bytecode that runs, not of the machine's instruction.
	HotSpot

	sourceCount
)

// SourceCount is the number of sources, none included.
const SourceCount = int(sourceCount)

var sourceNames = [sourceCount]string{
	Symtab: "symtab", Dynsym: "dynsym", DebugData: "gnu_debugdata", DebugFile: "debug-file", DWARF: "dwarf",
	PerfMap: "perf-map", VDSO: "vdso", HotSpot: "hotspot",
}

// String returns the word used in all outputs.
func (s Source) String() string { return sourceNames[s] }

// Reason is why a frame with a file has no function name. The list is closed:
// all outputs and the documentation use these words.
type Reason uint8

const (
	// NoReason is the reason of a frame that has a name.
	NoReason Reason = iota
	// NoFile: the file is neither at its path nor in any other place that was
	// looked at.
	NoFile
	// IDMismatch: the file that was found is another one, by its build ID.
	IDMismatch
	// Unverified: the trace has no build ID of the file, so whether the one that
	// was found is the same is unknown.
	Unverified
	// Unreadable: the file could not be read, or is damaged.
	Unreadable
	// NotACall: the frame is a return address, and no call is before it: it
	// cannot be right. The kernel has named a wrong file, or the stack is of
	// code without frame pointers.
	NotACall
	// OutsideText: the offset is not in code of the file.
	OutsideText
	// Stripped: the file has no full symbol table, and the symbols that it has
	// do not cover the place.
	Stripped
	// NoSymbol: the full symbol table has nothing at the place, such as a
	// linker's stub (PLT). Or the thread was where a function begins, after a
	// system call that ends the one before: it may be in either.
	NoSymbol
	// JIT: code in memory without a file, and no map of the program's has it.
	JIT
	// Replaceable: another user can have put the file that was found where it is, in place of
	// the one that ran.
	Replaceable

	reasonCount
)

// ReasonCount is the number of reasons, NoReason included.
const ReasonCount = int(reasonCount)

var reasonNames = [reasonCount]string{
	NoFile: "no-file", IDMismatch: "id-mismatch", Unverified: "unverified", Unreadable: "unreadable",
	OutsideText: "outside-text", NotACall: "not-a-call", Stripped: "stripped", NoSymbol: "no-symbol",
	JIT: "jit", Replaceable: "replaceable",
}

// String returns the word used in all outputs.
func (r Reason) String() string { return reasonNames[r] }
