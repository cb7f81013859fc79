package callsite

import (
	"debug/elf"
	"testing"
)

// TestEntryOf: the instruction before an address decides how a call there is numbered.
func TestEntryOf(t *testing.T) {
	for _, c := range []struct {
		m    elf.Machine
		code string
		want Entry
	}{
		{elf.EM_X86_64, "\x0f\x05", Own},
		{elf.EM_X86_64, "\x90\xb8\x01\x00\x00\x00\xcd\x80", Compat},
		{elf.EM_X86_64, "\x0f\x34", Compat},
		{elf.EM_X86_64, "\xcd\x81", NoEntry},
		{elf.EM_X86_64, "\x80", NoEntry},
		{elf.EM_X86_64, "\xcd\x80\x90", NoEntry},
		{elf.EM_386, "\xcd\x80", Compat},
		{elf.EM_386, "\x0f\x34", Compat},
		{elf.EM_386, "\x0f\x05", UnknownEntry}, // in what mode the processor was is not known
		{elf.EM_AARCH64, "\x01\x00\x00\xd4", Own},
		{elf.EM_AARCH64, "\x1f\x20\x03\xd5", NoEntry},
		{elf.EM_RISCV, "\x73\x00\x00\x00", UnknownEntry},
	} {
		if got := EntryOf(c.m, []byte(c.code)); got != c.want {
			t.Errorf("%v, % x: %d, want %d", c.m, c.code, got, c.want)
		}
	}
}
