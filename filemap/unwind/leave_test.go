package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// frameTable makes an .eh_frame of functions: where each begins, and the program of
// DWARF 5, 6.4.2, for all of its 16 bytes. At first the frame begins 8 bytes above the
// stack pointer, with the return address below.
func frameTable(functions map[uint64]string) []byte {
	put := binary.LittleEndian
	entry := func(b []byte, id uint32, body []byte) []byte {
		for len(body)%8 != 4 {
			body = append(body, 0)
		}
		b = put.AppendUint32(b, uint32(4+len(body)))
		return append(put.AppendUint32(b, id), body...)
	}
	b := entry(nil, 0, []byte("\x01zR\x00\x01\x78\x10\x01\x00\x0c\x07\x08\x90\x01"))
	for start, program := range functions {
		body := put.AppendUint64(put.AppendUint64(nil, start), 16)
		b = entry(b, uint32(len(b)+4), append(append(body, 0), program...))
	}
	return put.AppendUint32(b, 0)
}

// TestLeaving: a thread is at the end of a function that has taken its caller's
// registers off the stack, but the table has them in memory below the stack pointer,
// which is not at hand.
func TestLeaving(t *testing.T) {
	const (
		tail, cold, caller, sigreturn = 0x240, 0x260, 0x280, 0x2c0
		taken                         = "\x83\x03\x86\x02" // rbx and rbp are in memory
	)
	code := make([]byte, 0x100)
	copy(code[caller-0x200:], "\xe8\x00\x00\x00\x00")
	copy(code[sigreturn-0x200:], "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05")
	table := frameTable(map[uint64]string{0x200: taken, tail: "", cold: taken,
		caller: "\x0c\x06\x10\x86\x02"}) // by rbp
	for _, c := range []struct {
		name, code string
		frames     int
		end        Why
	}{
		{"ret", "\xc3", 2, Root},
		{"rep ret", "\xf3\xc3", 2, Root},
		{"jmp to another function", "\xe9\x3b\x00\x00\x00", 2, Root},
		{"short jmp", "\xeb\x3e", 2, Root},
		{"jmp to code that has the registers in memory", "\xe9\x5b\x00\x00\x00", 2, UnknownRegister},
		{"jmp to code without a table", "\xe9\x7b\x01\x00\x00", 2, UnknownRegister},
		{"jmp to an unknown function", "\xff\xe0", 2, UnknownRegister},
		{"another instruction", "\x90\xc3", 2, UnknownRegister},
	} {
		t.Run(c.name, func(t *testing.T) {
			copy(code, append([]byte(c.code), make([]byte, 8)...))
			file := elfFile(elf.EM_X86_64, map[string][]byte{".text": code, ".eh_frame": table})
			u := New(0)
			defer u.Close()
			space := fuzzSpace{u.File(Source{Key: "x", Name: "x", Open: func() (*Binary, error) {
				return &Binary{ReaderAt: bytes.NewReader(file), Size: int64(len(file))}, nil
			}})}
			stack := make([]byte, 64)
			const at = 0x9000
			binary.LittleEndian.PutUint64(stack, fuzzCode+caller+5)
			in := Input{Machine: elf.EM_X86_64, Space: space, Stack: Stack{At: at, Bytes: stack}}
			in.Regs.Set(AMD64PC, fuzzCode+0x200)
			in.Regs.Set(AMD64SP, at)
			in.Regs.Set(AMD64FP, at+0x10)
			if got, end := u.Unwind(&in, nil); len(got) != c.frames || end.Why != c.end {
				t.Errorf("%+v, %+v", got, end)
			}
			// A signal has interrupted it there; the handler is on another stack.
			handler := make([]byte, 512)
			for i, v := range map[int]uint64{10: at + 0x10, 15: at, 16: fuzzCode + 0x200} {
				binary.LittleEndian.PutUint64(handler[40+8*i:], v)
			}
			in.Stack = Stack{At: 0x7000, Bytes: handler, Read: func(addr uint64, b []byte) bool {
				return addr >= at && addr+8 <= at+64 && copy(b, stack[addr-at:]) == len(b)
			}}
			in.Regs = Registers{}
			in.Regs.Set(AMD64PC, fuzzCode+sigreturn)
			in.Regs.Set(AMD64SP, 0x7000)
			if got, end := u.Unwind(&in, nil); len(got) != c.frames+1 || end.Why != c.end {
				t.Errorf("interrupted: %+v, %+v", got, end)
			}
		})
	}
}
