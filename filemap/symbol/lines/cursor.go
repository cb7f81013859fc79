package lines

import "encoding/binary"

// cursor reads numbers from bytes. Past the end it reads zeros and is bad.
type cursor struct {
	b     []byte
	at    int
	order binary.ByteOrder
	bad   bool
}

func (c *cursor) left() int { return len(c.b) - c.at }

func (c *cursor) take(n uint64) []byte {
	if n > uint64(c.left()) {
		c.bad, c.at = true, len(c.b)
		return nil
	}
	b := c.b[c.at : c.at+int(n)]
	c.at += int(n)
	return b
}

func (c *cursor) skip(n uint64) { c.take(n) }

func (c *cursor) u8() uint8 {
	if c.at >= len(c.b) {
		c.bad = true
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return c.order.Uint16(b)
	}
	return 0
}

func (c *cursor) u24() uint32 {
	b := c.take(3)
	switch {
	case b == nil:
		return 0
	case c.order == binary.LittleEndian:
		return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	}
	return uint32(b[2]) | uint32(b[1])<<8 | uint32(b[0])<<16
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return c.order.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return c.order.Uint64(b)
	}
	return 0
}

// uint reads a number of size bytes.
func (c *cursor) uint(size uint8) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.bad = true
	return 0
}

func (c *cursor) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
	}
}

func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b < 0x80 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// text reads a zero-terminated string.
func (c *cursor) text() []byte {
	for i := c.at; i < len(c.b); i++ {
		if c.b[i] == 0 {
			s := c.b[c.at:i]
			c.at = i + 1
			return s
		}
	}
	c.bad, c.at = true, len(c.b)
	return nil
}

// length reads an initial length: the size of what follows, and whether
// offsets in it have 64 bits.
func (c *cursor) length() (n uint64, wide bool) {
	n = uint64(c.u32())
	switch {
	case n == 0xffffffff:
		return c.u64(), true
	case n >= 0xfffffff0:
		c.bad = true
	}
	return n, false
}

// offset reads an offset into a section.
func (c *cursor) offset(wide bool) uint64 {
	if wide {
		return c.u64()
	}
	return uint64(c.u32())
}
