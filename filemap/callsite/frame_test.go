package callsite

import (
	"debug/elf"
	"testing"
)

// TestKeepsFrame: beginnings of functions as compilers write them.
func TestKeepsFrame(t *testing.T) {
	for _, c := range []struct {
		what string
		m    elf.Machine
		code string
		want bool
	}{
		{"clang", elf.EM_X86_64, "\x55\x48\x89\xe5\x41\x57", true},
		{"gcc, other instructions in between", elf.EM_X86_64, "\xf3\x0f\x1e\xfa\x55\x31\xc0\x48\x8d\x3d\x00\x10\x00\x00\x48\x89\xe5", true},
		{"gcc, after a first test", elf.EM_X86_64, "\x85\xff\x75\x01\xc3\x55\x48\x89\xe5\xe8\x00\x00\x00\x00", true},
		{"another form of mov", elf.EM_X86_64, "\x55\x48\x8b\xec", true},
		{"Go before 1.21", elf.EM_X86_64, "\x48\x83\xec\x18\x48\x89\x6c\x24\x10\x48\x8d\x6c\x24\x10", true},
		{"Go, a large frame", elf.EM_X86_64, "\x48\x81\xec\x00\x02\x00\x00\x48\x89\xac\x24\xf8\x01\x00\x00\x48\x8d\xac\x24\xf8\x01\x00\x00", true},
		{"a local variable's address in %rbp", elf.EM_X86_64, "\x55\x53\x48\x83\xec\x28\x48\x8d\x6c\x24\x10", false},
		{"the stack pointer in %rbp", elf.EM_X86_64, "\x55\x53\x48\x83\xec\x18\x48\x89\xe5", false},
		{"the same bytes within a number", elf.EM_X86_64, "\x55\x48\xb8\x48\x89\xe5\x00\x00\x00\x00\x00\xc3", false},
		{"without", elf.EM_X86_64, "\x53\x48\x89\xfb\xe8\x00\x00\x00\x00\x5b\xc3", false},
		{"arm64", elf.EM_AARCH64, "\xfd\x7b\xbf\xa9\xfd\x03\x00\x91", true},
		{"arm64, Go", elf.EM_AARCH64, "\xfe\x0f\x1d\xf8\xfd\x83\x1f\xf8\xfd\x23\x00\xd1", true},
		{"arm64, without", elf.EM_AARCH64, "\xfe\x0f\x1f\xf8\x00\x00\x00\x94", false},
		{"of another machine", elf.EM_RISCV, "\x55\x48\x89\xe5", false},
	} {
		if got := KeepsFrame(c.m, []byte(c.code)); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
