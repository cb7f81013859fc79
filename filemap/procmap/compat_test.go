package procmap

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Test32Bit: a program of 32 bits has no [vsyscall].
func Test32Bit(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("for x86-64")
	}
	// An ELF file of 32 bits that waits, a minute at most, as a test that is killed leaves it:
	// mov $27 (alarm), %eax; mov $60, %ebx; int $0x80; mov $29 (pause), %eax; int $0x80; jmp.
	const base, head, code = 0x08048000, 52, 52 + 32
	var b []byte
	u16 := func(v ...uint16) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint16(b, v)
		}
	}
	u32 := func(v ...uint32) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	b = append(b, "\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	u16(2, 3) // ET_EXEC, EM_386
	u32(1, base+code, head, 0, 0)
	u16(head, 32, 1, 40, 0, 0)
	u32(1, 0, base, base, 4096, 4096, 5, 4096) // PT_LOAD, r-x
	b = append(b, 0xb8, 27, 0, 0, 0, 0xbb, 60, 0, 0, 0, 0xcd, 0x80)
	b = append(b, 0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7)
	b = append(b, make([]byte, 4096-len(b))...)
	cmd := exec.Command(writeFile(t, "elf32", b))
	if err := cmd.Start(); err != nil {
		t.Skipf("this kernel runs no programs of 32 bits: %v", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	var want []string
	waitFor(t, func() bool { // until execve(2) is done, and the program calls pause(2)
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil || !strings.Contains(string(state), " (elf32) S ") {
			return false
		}
		lines, err := rawLines(cmd.Process.Pid, "x")
		settled := err == nil && slices.Equal(lines, want) && strings.Contains(strings.Join(lines, "\n"), "elf32")
		want = lines
		return settled
	})
	if strings.Contains(strings.Join(want, "\n"), "vsyscall") {
		t.Skipf("not what was meant:\n%s", strings.Join(want, "\n"))
	}
	bothSources(t, Options{Filter: Filter{Perms: Exec}}, func(t *testing.T, r *Reader) {
		var p Process
		if err := r.Process(cmd.Process.Pid, &p); err != nil {
			t.Fatal(err)
		}
		if got := ourLines(&p); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
