package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// fuzzSpace has one file of code, one area of a JIT compiler, and data.
type fuzzSpace struct{ file *File }

const fuzzCode, fuzzJIT = 0x10000, 0x20000

func (s fuzzSpace) Find(addr uint64) (Mapping, bool) {
	switch {
	case addr >= fuzzCode && addr < fuzzCode+0x1000:
		return Mapping{Start: fuzzCode, End: fuzzCode + 0x1000, Exec: true, File: s.file}, true
	case addr >= fuzzJIT && addr < fuzzJIT+0x1000:
		return Mapping{Start: fuzzJIT, End: fuzzJIT + 0x1000, Exec: true, JIT: true}, true
	}
	return Mapping{}, false
}

// elfFile makes a program of sections; those with an address are in memory at
// the offset that is equal to it.
func elfFile(machine elf.Machine, sections map[string][]byte) []byte {
	const code = 0x1000
	var b bytes.Buffer
	names := []byte("\x00")
	var headers []elf.Section64
	headers = append(headers, elf.Section64{})
	b.Write(make([]byte, code))
	order := []string{".text", ".eh_frame", ".eh_frame_hdr", ".debug_frame", ".sframe"}
	for _, name := range order {
		data, ok := sections[name]
		if !ok {
			continue
		}
		for b.Len()%8 != 0 {
			b.WriteByte(0)
		}
		h := elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Off: uint64(b.Len()), Addr: uint64(b.Len()), Size: uint64(len(data))}
		if name == ".text" {
			h.Flags, h.Addr, h.Off = h.Flags|uint64(elf.SHF_EXECINSTR), 0, 0
			copy(b.Bytes()[0x200:], data)
			h.Size = code
		} else {
			b.Write(data)
		}
		names = append(append(names, name...), 0)
		headers = append(headers, h)
	}
	headers = append(headers, elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_STRTAB), Off: uint64(b.Len())})
	names = append(append(names, ".shstrtab"...), 0)
	headers[len(headers)-1].Size = uint64(len(names))
	b.Write(names)
	at := b.Len()
	write := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	write(headers)
	var head bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 64, Shoff: uint64(at), Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(headers)), Shstrndx: uint16(len(headers) - 1)}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	binary.Write(&head, binary.LittleEndian, h)
	binary.Write(&head, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: code, Memsz: code})
	out := b.Bytes()
	copy(out, head.Bytes())
	return out
}

// FuzzUnwind: whatever tables, registers and stacks say, a stack ends, has no
// more frames than asked for, and no frame that is not code after a call.
func FuzzUnwind(f *testing.F) {
	frame := []byte("\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x00\x0c\x07\x08\x90\x01\x00\x00\x00" + // CIE
		"\x1c\x00\x00\x00\x1c\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x44\x0e\x10\x00\x00\x00\x00")
	simple := []byte("\xe2\xde\x02\x01\x03\x00\xf8\x00\x01\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00" +
		"\x00\xf2\xff\xff\x00\x08\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x03\x08")
	stack := make([]byte, 256)
	for i := 0; i < len(stack); i += 16 {
		binary.LittleEndian.PutUint64(stack[i:], fuzzCode+0x305)
		binary.LittleEndian.PutUint64(stack[i+8:], 0x7000+uint64(i)+16)
	}
	code := bytes.Repeat([]byte{0xe8, 0, 0, 0, 0}, 200)
	f.Add(frame, byte(0), code, stack, uint64(fuzzCode+0x300), uint64(0x7010), false)
	f.Add(frame, byte(1), code, stack, uint64(fuzzCode+0x301), uint64(0x7010), true)
	f.Add(simple, byte(2), code, stack, uint64(fuzzCode+0x301), uint64(0x7010), false)
	f.Add([]byte(nil), byte(0), code, stack, uint64(fuzzJIT+0x301), uint64(0x7000), true)
	f.Fuzz(func(t *testing.T, section []byte, form byte, code, stack []byte, pc, fp uint64, arm bool) {
		machine := elf.EM_X86_64
		if arm {
			machine = elf.EM_AARCH64
		}
		name := []string{".eh_frame", ".debug_frame", ".sframe"}[form%3]
		file := elfFile(machine, map[string][]byte{".text": code[:min(len(code), 0xe00)], name: section})
		u := New(1 << 20)
		defer u.Close()
		space := fuzzSpace{u.File(Source{Key: "x", Name: "x", Open: func() (*Binary, error) {
			return &Binary{ReaderAt: bytes.NewReader(file), Size: int64(len(file))}, nil
		}})}
		in := Input{Machine: machine, Space: space, Stack: Stack{At: 0x7000, Bytes: stack}, Max: 40}
		for i := range uint8(33) {
			in.Regs.Set(i, uint64(i)*8+0x7000)
		}
		if arm {
			in.Regs.Set(ARM64PC, pc)
			in.Regs.Set(ARM64FP, fp)
			in.Regs.Set(ARM64LR, pc+8)
		} else {
			in.Regs.Set(AMD64PC, pc)
			in.Regs.Set(AMD64SP, 0x7000)
			in.Regs.Set(AMD64FP, fp)
		}
		got, end := u.Unwind(&in, nil)
		if len(got) > 40 || end.Why >= whyCount || len(got) == 0 && end.Why != NoMap {
			t.Fatalf("%d frames, %+v", len(got), end)
		}
		for i, fr := range got {
			m, ok := space.Find(fr.PC)
			if !ok || !m.Exec || fr.How >= howCount || m.File != fr.File {
				t.Fatalf("frame %d: %+v", i, fr)
			}
			if i > 0 && fr.File != nil && !fr.Exact && !fr.File.step(fr.Offset, false).called {
				t.Fatalf("frame %d is not called: %+v", i, fr)
			}
		}
		if n := u.Memory(); n > 8<<20 {
			t.Fatalf("%d bytes of tables", n)
		}
	})
}

// FuzzExpression: an expression ends.
func FuzzExpression(f *testing.F) {
	f.Add([]byte("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"), uint64(0x7000)) // of the PLT
	f.Add([]byte("\x76\x78\x06"), uint64(0x7000))
	f.Add([]byte("\x2f\xfd\xff"), uint64(0))
	f.Add([]byte("\x31\x28\xfc\xff"), uint64(0))
	f.Fuzz(func(t *testing.T, code []byte, first uint64) {
		w := walker{in: &Input{Stack: Stack{At: 0x7000, Bytes: make([]byte, 256)}}}
		w.regs.Set(AMD64SP, 0x7000)
		w.regs.Set(AMD64FP, 0x7080)
		w.evaluate(code, first)
	})
}
