package filemap

// Memory is memory without a file, as the kernel names it in /proc/PID/maps:
// "[heap]", "[stack]", "[vdso]", "[anon:NAME]"; "[anon]" if it has no name.
type Memory struct {
	Name string
	// Exec: code can run there.
	Exec bool
	// Code is the function that the frame is in, nil if it is unknown or was not
	// looked up.
	Code *Code
}

// Code is a function in memory without a file: of a program that makes its code
// while it runs, or of the vDSO.
type Code struct {
	Function string
	// Start is the function's address; in the vDSO, its offset there.
	Start uint64
	// Runtime: the program's virtual machine has the function. Offset is then the index of
	// the bytecode that runs, 0 if unknown, and Inlined are the functions that are inlined
	// there, innermost first.
	Runtime bool
	Offset  uint64
	Inlined []string
}
