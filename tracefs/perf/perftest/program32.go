package perftest

import "encoding/binary"

// What Program32 has in its registers, and at the top of its stack.
const (
	EBP32, ESI32 = 0x11223344, 0x55667788
	Stack32      = 0x600dcafe
)

// Program32 returns a program for 32-bit x86 (an ELF file). It reads a byte from its
// standard input, calls getppid, and then waits for a signal.
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
	out := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 15: 0}
	halves := func(values ...uint16) {
		for _, v := range values {
			out = binary.LittleEndian.AppendUint16(out, v)
		}
	}
	words := func(values ...uint32) {
		for _, v := range values {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
	}
	halves(2, 3) // ET_EXEC, EM_386
	words(1, base+headers, 52, 0, 0)
	halves(52, 32, 1, 0, 0, 0)
	words(1, 0, base, base, size, size, 5, 0x1000) // PT_LOAD
	return append(out, code...)
}
