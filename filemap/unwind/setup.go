package unwind

import (
	"bytes"
	"encoding/binary"
)

// isSetUp reports whether the frame at hand, which was interrupted and has no
// table, has its own frame pointer: the call before the return address that the
// frame record has leads to the function that was interrupted, and that has set
// its frame pointer and is not yet about to return. Otherwise the record is its
// caller's, and a frame would be missing.
func (w *walker) isSetUp(to uint64) bool {
	p, ok := w.find(to)
	if !ok || p.file != w.place.file || to < 5 {
		return false
	}
	const longest = 16 << 10
	start, ok := p.file.target(p.offset)
	here := w.place.offset
	if !ok || start >= here || here-start > longest {
		return false
	}
	code, err := p.file.image.Code(here+4, here+4-start)
	if err != nil {
		return false
	}
	ran, next := code[:len(code)-4], code[len(code)-4:]
	if w.arm64 {
		return setARM64(ran, next)
	}
	return setAMD64(ran, next, start)
}

// target returns the file offset that the call before an offset leads to.
func (f *File) target(offset uint64) (uint64, bool) {
	if f.image.Machine == arm64 {
		b := f.code(offset-4, 4)
		if len(b) < 4 || b[3]>>2 != 0x25 { // bl
			return 0, false
		}
		const bits = 6
		return offset - 4 + uint64(int64(int32(binary.LittleEndian.Uint32(b)<<bits)>>bits)*4), true
	}
	b := f.code(offset-5, 5)
	if len(b) < 5 || b[0] != 0xe8 { // call rel32
		return 0, false
	}
	return offset + uint64(int64(int32(binary.LittleEndian.Uint32(b[1:])))), true
}

// setAMD64 reports whether code of one function, as far as it comes before next,
// has set %rbp, and next does not return. start is where it begins.
func setAMD64(code, next []byte, start uint64) bool {
	if !bytes.Contains(code[:min(len(code), 32)], []byte("\x48\x89\xe5")) || next[0] == 0xc3 || next[0] == 0xc9 && len(code) == 0 {
		return false
	}
	const aligned = 16
	for i, c := range code {
		if c != 0xc3 {
			continue
		}
		after := code[i+1:]
		if (start+uint64(i)+1)%aligned == 0 || bytes.HasPrefix(after, []byte{0x55}) || bytes.HasPrefix(after, []byte("\xf3\x0f\x1e\xfa")) ||
			bytes.HasPrefix(after, []byte{0x0f, 0x1f}) || bytes.HasPrefix(after, []byte{0x66}) || bytes.HasPrefix(after, []byte{0x90}) || bytes.HasPrefix(after, []byte{0xcc}) || len(after) == 0 {
			return false // another function can begin there
		}
	}
	return true
}

// setARM64 is setAMD64 for arm64: add x29, sp, n; no return.
func setARM64(code, next []byte) bool {
	isReturn := func(b []byte) bool {
		v := binary.LittleEndian.Uint32(b)
		return v == 0xd65f03c0 || v == 0xd65f0bff || v == 0xd65f0fff // ret, retaa, retab
	}
	set := false
	for ; len(code) >= 4; code = code[4:] {
		if isReturn(code) {
			return false
		}
		v := binary.LittleEndian.Uint32(code)
		set = set || v&0xffc003ff == 0x910003fd
		if v&0xffc07fff == 0xa8c07bfd { // ldp x29, x30, [sp], n: the record is gone
			return false
		}
	}
	return set && !isReturn(next)
}
