package unwind

import (
	"bytes"
	"debug/elf"

	"ustack/filemap/callsite"
	"ustack/filemap/symbol/image"
)

const arm64 = elf.EM_AARCH64

// keepsFramePointers reports whether the code of a file sets up frame pointers:
// nine functions of ten, counted by where they end.
func keepsFramePointers(x *image.Image) bool {
	sets, returns := 0, 0
	const most = 4 << 20 // bytes of code that are looked at
	for i := range x.Sections {
		s := &x.Sections[i]
		if s.Name != ".text" || s.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		code, err := x.CodeAt(s.Addr, min(s.Size, most))
		if err != nil {
			return false
		}
		a, b := countFrames(x.Machine, code)
		sets, returns = sets+a, returns+b
	}
	const few = 8
	return sets >= few && sets*10 >= returns*9
}

// countFrames counts the places that set up a frame pointer, and functions:
// what is called or returns.
func countFrames(m elf.Machine, code []byte) (sets, functions int) {
	switch m {
	case elf.EM_X86_64:
		sets = bytes.Count(code, []byte("\x48\x89\xe5")) // mov %rsp,%rbp
		functions = bytes.Count(code, []byte("\xc3\x0f\x1f")) + bytes.Count(code, []byte("\xc3\x66")) + bytes.Count(code, []byte("\xc3\x55"))
	case arm64:
		for ; len(code) >= 4; code = code[4:] {
			if callsite.SetsFrame(code[:4]) {
				sets++
			}
			if bytes.Equal(code[:4], []byte("\xc0\x03\x5f\xd6")) { // ret
				functions++
			}
		}
	}
	return sets, functions
}
