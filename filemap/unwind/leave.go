package unwind

import (
	"bytes"
	"encoding/binary"
)

// leaves reports whether code of x86-64 does nothing but take registers off the
// stack (pop) and return, or jump to a function that returns in its place.
func (f *File) leaves(offset, addr uint64) bool {
	const most = 24
	if f.image.Machine == arm64 {
		return false
	}
	for code := f.code(offset, most); len(code) > 0; {
		n := 0
		switch {
		case code[0] == 0xc3 || bytes.HasPrefix(code, []byte("\xf3\xc3")): // ret
			return true
		case code[0] == 0xe9 && len(code) >= 5: // jmp
			return f.untouched(addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:])))))
		case code[0] == 0xeb && len(code) >= 2:
			return f.untouched(addr + 2 + uint64(int64(int8(code[1]))))
		case code[0]>>3 == 0x58>>3:
			n = 1
		case code[0] == 0x41 && len(code) > 1 && code[1]>>3 == 0x58>>3:
			n = 2
		default:
			return false
		}
		code, addr = code[n:], addr+uint64(n)
	}
	return false
}

// untouched reports whether at an address all registers that functions keep are the
// caller's: the table has no other place for any of them. A jump changes none, so that
// is also true before one to there. Other parts of a function that uses memory below the
// stack pointer have such places.
func (f *File) untouched(addr uint64) bool {
	r, _ := f.find(addr)
	return r != nil && len(r.Others) == 0 && !r.Few && !r.Signal
}
