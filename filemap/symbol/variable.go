package symbol

import (
	"fmt"
	"path"

	"ustack/filemap"
)

// Variable is a place in the data of a program or library.
type Variable struct {
	// Name is the variable's, as its symbol has it, demangled; "" without a symbol.
	Name string
	// Offset is the distance of the place from the variable's beginning, without a symbol
	// its address in the file, as nm has it.
	Offset uint64
	File   *filemap.File
	Source Source
}

// String is "pool+0x40", or "pool" for its beginning, "libpool.so+0x4040" without a symbol.
func (v *Variable) String() string {
	if v.Name == "" {
		return fmt.Sprintf("%s+%#x", path.Base(v.File.Path), v.Offset)
	}
	if v.Offset == 0 {
		return v.Name
	}
	return fmt.Sprintf("%s+%#x", v.Name, v.Offset)
}
