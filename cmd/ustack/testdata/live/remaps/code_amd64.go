package main

import "encoding/binary"

// program is getpgid(n): mov $n,%edi; mov $121,%eax; syscall; ret.
func program(n uint32) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{0xbf}, n)
	return append(b, 0xb8, 121, 0, 0, 0, 0x0f, 0x05, 0xc3)
}
