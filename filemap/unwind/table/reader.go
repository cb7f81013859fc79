package table

import "encoding/binary"

// encoding is how a pointer is written (DW_EH_PE_*; LSB, 10.5.1).
type encoding uint8

const (
	encodingHere    encoding = 0x10 // counted from where the pointer stands
	encodingData    encoding = 0x30 // counted from .eh_frame_hdr
	encodingOmitted encoding = 0xff
)

// reader reads bytes that lie at an address. Bytes beyond the end are 0, and
// set bad.
type reader struct {
	b    []byte
	addr uint64
	bad  bool
}

// take returns the next n bytes, nil if there are not so many.
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
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	r.addr++
	return c
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb and sleb read numbers of at most 64 bits (DWARF 5, 7.6).
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

// text returns what stands before the next zero.
func (r *reader) text() string {
	for i, c := range r.b {
		if c == 0 {
			return string(r.take(uint64(i + 1))[:i])
		}
	}
	r.b, r.bad = nil, true
	return ""
}

// number reads a pointer without regard to what it is counted from.
func (r *reader) number(e encoding) uint64 {
	switch e & 0x0f {
	case 0x00, 0x04, 0x0c:
		return r.u64()
	case 0x01:
		return r.uleb()
	case 0x02:
		return uint64(r.u16())
	case 0x03:
		return uint64(r.u32())
	case 0x09:
		return uint64(r.sleb())
	case 0x0a:
		return uint64(int64(int16(r.u16())))
	case 0x0b:
		return uint64(int64(int32(r.u32())))
	}
	r.bad = true
	return 0
}

// pointer reads a pointer, absolute or counted from here. Other bases depend on
// the machine and are written by no linker for functions.
func (r *reader) pointer(e encoding) uint64 {
	here := r.addr
	v := r.number(e)
	switch e &^ 0x0f {
	case 0:
	case encodingHere:
		v += here
	default:
		r.bad = true
	}
	return v
}
