package health

import "ustack/filemap/symbol"

// Target is a file that was looked at.
type Target struct {
	// Path is as the user has named it, or as the process sees it.
	Path string
	// PID is the process that has it mapped, 0 for a file that the user has named.
	PID int
	// Report is nil if Err says why there is none.
	Report *Report
	Err    error
	// NotELF is set if the file is no program or library.
	NotELF bool
	// Debug is the path of the separate debug file, "" if none was found. Tries are
	// the places where it was looked for.
	Debug string
	Tries []symbol.Try
}

// Process describes the code of a process that is in no file.
type Process struct {
	PID  int
	Name string // comm
	// Bare mappings, of so many bytes, are executable and of no file, perhaps of a JIT
	// compiler. The stack, the heap and the kernel's own mappings are not counted.
	Bare      int
	BareBytes uint64
}
