package cfi

import "encoding/binary"

// encoding is how a pointer is written (DW_EH_PE_*).
type encoding uint8

// relHere is a pointer that is counted from where it stands.
const relHere encoding = 0x10

// size is how many bytes a pointer has, more than there are if it cannot be
// read.
func (e encoding) size() uint64 {
	switch e & 0x0f {
	case 0x00, 0x04, 0x0c:
		return 8
	case 0x02, 0x0a:
		return 2
	case 0x03, 0x0b:
		return 4
	}
	return maxEntry
}

// reader reads bytes that lie at an address. What is not there is 0, and bad.
type reader struct {
	b    []byte
	addr uint64
	bad  bool
}

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// take is the next n bytes, nil if there are not so many.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	r.addr += n
	return b
}

func (r *reader) skip(n uint64) { r.take(n) }

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return le32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb and sleb read numbers of at most 64 bits.
func (r *reader) uleb() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := r.u8()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader) sleb() int64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		c := r.u8()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= ^uint64(0) << (shift + 7)
			}
			return int64(v)
		}
	}
	r.bad = true
	return 0
}

// text is what stands before the next zero.
func (r *reader) text() string {
	for i, c := range r.b {
		if c == 0 {
			return string(r.take(uint64(i + 1))[:i])
		}
	}
	r.b, r.bad = nil, true
	return ""
}

// pointer reads a pointer, absolute or counted from here.
func (r *reader) pointer(e encoding) (v uint64) {
	here := r.addr
	switch e & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = r.u64()
	case 0x02:
		v = uint64(r.u16())
	case 0x03:
		v = uint64(r.u32())
	case 0x0a:
		v = uint64(int64(int16(r.u16())))
	case 0x0b:
		v = uint64(int64(int32(r.u32())))
	default:
		r.bad = true
	}
	switch e &^ 0x0f {
	case 0:
	case relHere:
		v += here
	default:
		r.bad = true
	}
	return v
}
