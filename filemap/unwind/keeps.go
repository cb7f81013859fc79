package unwind

import (
	"debug/elf"

	"ustack/filemap/unwind/frames"
)

const arm64 = elf.EM_AARCH64

// isPlain reports whether to use frame pointers where there is no table.
func (f *File) isPlain() bool {
	if !f.checked {
		f.checked, f.plain = true, frames.Plain(f.image, f.tables)
	}
	return f.plain
}
