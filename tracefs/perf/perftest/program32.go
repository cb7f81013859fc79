package perftest

import (
	"bytes"
	"encoding/binary"
)

// What Program32 has in its registers, and at the top of its stack.
const (
	EBP32, ESI32 = 0x11223344, 0x55667788
	Stack32      = 0x600dcafe
)

// Program32 is a program for 32-bit x86 (an ELF file). It reads a byte from its standard
// input, calls getppid, and then waits for a signal.
func Program32() []byte {
	code := []byte{
		0x68, 0xfe, 0xca, 0x0d, 0x60, // push Stack32
		0xbd, 0x44, 0x33, 0x22, 0x11, // mov ebp, EBP32
		0xbe, 0x88, 0x77, 0x66, 0x55, // mov esi, ESI32
		0xb8, 3, 0, 0, 0, // mov eax, read
		0x31, 0xdb, // xor ebx, ebx
		0x8d, 0x4c, 0x24, 0xc0, // lea ecx, [esp-64]
		0xba, 1, 0, 0, 0, // mov edx, 1
		0xcd, 0x80, // int 0x80
		0xb8, 64, 0, 0, 0, // mov eax, getppid
		0xcd, 0x80,
		0xb8, 29, 0, 0, 0, // mov eax, pause
		0xcd, 0x80,
		0xeb, 0xf7, // jmp to the mov before
	}
	const (
		headers = 52 + 32
		base    = 0x08048000
	)
	size := uint32(headers + len(code))
	var b bytes.Buffer
	for _, v := range []any{
		[16]byte{0x7f, 'E', 'L', 'F', 1, 1, 1},
		uint16(2), uint16(3), uint32(1), uint32(base + headers), uint32(52), uint32(0), uint32(0), // ET_EXEC, EM_386
		uint16(52), uint16(32), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(0), uint32(base), uint32(base), size, size, uint32(5), uint32(0x1000), // PT_LOAD
	} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err) // a mistake of this function
		}
	}
	return append(b.Bytes(), code...)
}
