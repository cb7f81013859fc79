package binary

import (
	"encoding/binary"
	"math/bits"
)

// appendHex appends a number without leading zeros.
func appendHex(b []byte, v uint64) []byte {
	if v < 16 {
		return append(b, hexDigits[v])
	}
	if high := uint32(v >> 32); high != 0 {
		b = appendHex32(b, high)
		return binary.LittleEndian.AppendUint64(b, hex8(uint32(v)))
	}
	return appendHex32(b, uint32(v))
}

// appendHex32 does for a number of 32 bits, which is not 0.
func appendHex32(b []byte, v uint32) []byte {
	zeros := bits.LeadingZeros32(v) / 4
	b = binary.LittleEndian.AppendUint64(b, hex8(v)>>(8*zeros))
	return b[:len(b)-zeros]
}

// hex8 returns the eight digits of a number, the first one in the lowest byte.
func hex8(v uint32) uint64 {
	const ones = 0x0101010101010101
	x := bits.ReverseBytes64(uint64(v)) >> 32 // the bytes in the order of the digits
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = x>>4&(0x0f*0x0001000100010001) | x<<8&(0x0f00*0x0001000100010001)
	letters := (x + 6*ones) >> 4 & ones // 1 for each digit from a on
	return x + '0'*ones + letters*('a'-'0'-10)
}
