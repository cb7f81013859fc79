package symbol

import (
	"fmt"

	"ustack/filemap"
)

// Variable is a place in the data of a program or library.
type Variable struct {
	// Name is the variable's, as its symbol has it, demangled.
	Name string
	// Offset is the distance of the place from the variable's beginning.
	Offset uint64
	File   *filemap.File
	Source Source
}

// String is "pool+0x40", or "pool" for its beginning.
func (v *Variable) String() string {
	if v.Offset == 0 {
		return v.Name
	}
	return fmt.Sprintf("%s+%#x", v.Name, v.Offset)
}
