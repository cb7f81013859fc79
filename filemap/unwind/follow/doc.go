// Package follow finds the caller's frame from machine code of x86-64 that no table
// describes.
//
// It follows the code from an instruction on, along all branches, with what is known of
// registers and of the stack in symbols, until it returns: there the stack pointer
// says where the return address is, and the registers that functions must keep
// (psABI of x86-64, 3.2.1) have the caller's values. It also follows a function from where
// it begins to the instruction. All paths must agree. The numbers of instructions and of
// branches are bounded.
package follow

import "ustack/filemap/unwind/table"

// Code is the code of a file, by address.
type Code interface {
	// At returns the code from an address on: 15 bytes, less at its end, none outside
	// of it. They are valid until the next call.
	At(addr uint64) []byte
	// Begins reports whether a function is known to begin at an address.
	Begins(addr uint64) bool
	// Complete reports whether Begins knows all functions.
	Complete() bool
	// Described returns what a table says of an address, nil if none describes it.
	Described(addr uint64) *table.Rules
}

// Bounds on one look at the code.
const (
	MaxInstructions = 4096
	maxPending      = 256 // branches that are still to be followed
	maxStores       = 48  // places of the stack whose value is known
)

// Answer is how to find the caller of an instruction.
type Answer struct {
	// Rules are nil if it is not known.
	Rules *table.Rules
	// Also, if its Kind is not table.Unsaid, is another way to find the canonical
	// frame address. Both must lead to the same.
	Also table.Rule
	// Doubt: a call after which the code was followed can be the last instruction of its
	// function, and may never return.
	Doubt bool
	// Root: nothing has called the function: it never returns, but ends the thread, and it
	// has made the frame pointer 0 first.
	Root bool
	// Why says why there are no Rules.
	Why string
}

// Reasons for which there are no Rules.
const (
	neverReturns = "no table, and its code never returns"
	disagreement = "no table, and the paths of its code disagree"
	notKnown     = "no table, and its code leads where it cannot be followed"
	twoThreads   = "no table, and two threads come from this system call"
)
