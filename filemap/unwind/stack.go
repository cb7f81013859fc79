package unwind

import "encoding/binary"

// maxStack is the largest stack that a copy is thought to be too short for. Far
// away from it is other memory.
const maxStack = 64 << 20

// word reads 8 bytes of memory. If ok is false, w.end says why.
func (w *walker) word(addr uint64) (v uint64, ok bool) {
	s := &w.in.Stack
	off := addr - s.At
	if n := uint64(len(s.Bytes)); off < n && n-off >= 8 {
		w.high = max(w.high, addr)
		return binary.LittleEndian.Uint64(s.Bytes[off:]), true
	}
	return w.beyond(addr)
}

// beyond reads memory that is not in the copy.
func (w *walker) beyond(addr uint64) (v uint64, ok bool) {
	s := &w.in.Stack
	if s.Read != nil && addr <= ^uint64(0)-8 {
		if s.Read(addr, w.buf[:]) {
			if addr-w.sp0 < maxStack {
				w.high = max(w.high, addr)
			}
			return binary.LittleEndian.Uint64(w.buf[:]), true
		}
	}
	have := s.At + uint64(len(s.Bytes))
	inLimit := s.Limit == 0 && addr-s.At < maxStack || s.Limit >= 8 && addr <= s.Limit-8
	if s.Read == nil && addr >= s.At && inLimit && addr <= ^uint64(0)-8 {
		w.end = End{Why: Short, Addr: addr, Want: addr + 8 - have}
	} else {
		w.end = End{Why: Elsewhere, Addr: addr}
	}
	return 0, false
}
