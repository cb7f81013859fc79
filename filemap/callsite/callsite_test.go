package callsite

import (
	"debug/elf"
	"testing"
)

func TestEnds(t *testing.T) {
	pad := func(b ...byte) []byte { return append(make([]byte, 8), b...) }
	for _, c := range []struct {
		what string
		m    elf.Machine
		code []byte
		want bool
	}{
		{"call rel32", elf.EM_X86_64, pad(0xe8, 1, 2, 3, 4), true},
		{"call rel32, 32 bits", elf.EM_386, pad(0xe8, 1, 2, 3, 4), true},
		{"call rax", elf.EM_X86_64, pad(0xff, 0xd0), true},
		{"call r8", elf.EM_X86_64, pad(0x41, 0xff, 0xd0), true},
		{"call [rip+x]", elf.EM_X86_64, pad(0xff, 0x15, 1, 2, 3, 4), true},
		{"call [rax+8]", elf.EM_X86_64, pad(0xff, 0x50, 8), true},
		{"call [rsp+8]", elf.EM_X86_64, pad(0xff, 0x54, 0x24, 8), true},
		{"call [rax*8+disp32]", elf.EM_X86_64, pad(0xff, 0x14, 0xc5, 1, 2, 3, 4), true},
		{"jmp rax", elf.EM_X86_64, pad(0xff, 0xe0), false},
		{"syscall", elf.EM_X86_64, pad(0x0f, 0x05), false},
		{"nop", elf.EM_X86_64, pad(0x90), false},
		{"call rel32, one byte on", elf.EM_X86_64, pad(0xe8, 1, 2, 3, 4, 0x90), false},
		{"bl", elf.EM_AARCH64, pad(0x10, 0, 0, 0x94), true},
		{"blr x8", elf.EM_AARCH64, pad(0x00, 0x01, 0x3f, 0xd6), true},
		{"blraaz x8", elf.EM_AARCH64, pad(0x1f, 0x09, 0x3f, 0xd6), true},
		{"blraa x8, x9", elf.EM_AARCH64, pad(0x09, 0x09, 0x3f, 0xd7), true},
		{"b", elf.EM_AARCH64, pad(0x10, 0, 0, 0x14), false},
		{"ret", elf.EM_AARCH64, pad(0xc0, 0x03, 0x5f, 0xd6), false},
		{"too short", elf.EM_X86_64, []byte{0xff, 0xd0}, false},
	} {
		if got := Ends(c.m, c.code); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestSyscall(t *testing.T) {
	for _, c := range []struct {
		what string
		m    elf.Machine
		code []byte
		want bool
	}{
		{"syscall", elf.EM_X86_64, []byte{0x90, 0x0f, 0x05}, true},
		{"int $0x80", elf.EM_386, []byte{0xcd, 0x80}, true},
		{"sysenter", elf.EM_386, []byte{0x0f, 0x34}, true},
		{"ret", elf.EM_X86_64, []byte{0x0f, 0x05, 0xc3}, false},
		{"nothing", elf.EM_X86_64, nil, false},
		{"svc #0", elf.EM_AARCH64, []byte{0, 0, 1, 0, 0, 0xd4}, true},
		{"brk #0", elf.EM_AARCH64, []byte{0, 0, 0x20, 0xd4}, false},
		{"too short", elf.EM_AARCH64, []byte{0, 0, 0xd4}, false},
		{"of another machine", elf.EM_RISCV, []byte{0x0f, 0x05}, false},
	} {
		if got := Syscall(c.m, c.code); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestSigreturn(t *testing.T) {
	for _, c := range []struct {
		m    elf.Machine
		code string
		want bool
	}{
		{elf.EM_X86_64, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05\x90", true},
		{elf.EM_X86_64, "\xb8\x0f\x00\x00\x00\x0f\x05", true},
		{elf.EM_X86_64, "\xb8\x0e\x00\x00\x00\x0f\x05", false},
		{elf.EM_X86_64, "\xb8\x0f", false},
		{elf.EM_AARCH64, "\x68\x11\x80\xd2\x01\x00\x00\xd4", true},
		{elf.EM_386, "\xb8\x0f\x00\x00\x00\x0f\x05", false},
	} {
		if got := Sigreturn(c.m, []byte(c.code)); got != c.want {
			t.Errorf("%v % x: %v", c.m, c.code, got)
		}
	}
}
