package symbol

import "ustack/filemap"

// Place is a frame of a stack: an offset in a file. Ran is set if the thread was
// there; other frames are return addresses.
type Place struct {
	File   *filemap.File
	Offset uint64
	Ran    bool
	// Calls is the function that the thread began with, if the function is
	// known and the call before the return address calls it
	// (symbolize.Symbols.Start).
	Calls filemap.Begun
}

// Skipped is a function that is on a stack between two frames, although the
// unwinder did not see it.
type Skipped struct {
	File *filemap.File
	// Offset is where the function begins. The thread's place in it is unknown.
	Offset uint64
	Name   *Name // has Inferred set
}
