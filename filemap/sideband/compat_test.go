package sideband

import (
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/compat"
)

// Where the program that int80Program makes has a second segment.
const int80Addr = 0x20000000

// int80Program is a 64-bit program with two segments that says so, waits, makes a
// system call as a 32-bit program would (int 0x80), says so, and waits.
func int80Program(call, b, c, d, s, di uint32) []byte {
	const ax, cx, dx, bx, si, reg = "\xb8", "\xb9", "\xba", "\xbb", "\xbe", "\xbf"
	return callingProgram([]byte{0xcd, 0x80}, []string{ax, bx, cx, dx, si, reg}, call, b, c, d, s, di)
}

// x32Program is such a program that makes a system call of the x32 ABI.
func x32Program(call, di, si, d, r10, r8 uint32) []byte {
	const ax, reg, second, dx, fourth, fifth = "\xb8", "\xbf", "\xbe", "\xba", "\x41\xba", "\x41\xb8"
	return callingProgram([]byte{0x0f, 0x05}, []string{ax, reg, second, dx, fourth, fifth}, call|compat.X32Bit, di, si, d, r10, r8)
}

// callingProgram is such a program, which fills registers and enters the kernel.
func callingProgram(enter []byte, registers []string, values ...uint32) []byte {
	const base, segment, head = 0x400000, 56, 64 + 2*56
	word := binary.LittleEndian.AppendUint32
	var code []byte
	op := func(opcode []byte, imm ...uint32) {
		code = append(code, opcode...)
		for _, v := range imm {
			code = word(code, v)
		}
	}
	const ax, dx, reg = "\xb8", "\xba", "\xbf" // mov $imm
	mov := func(to string, v uint32) { op([]byte(to), v) }
	syscall := func() { op([]byte{0x0f, 0x05}) }
	talk := func(call, fd uint32) { // of one byte of the stack
		mov(ax, call)
		mov(reg, fd)
		op([]byte{0x48, 0x89, 0xe6}) // mov %rsp,%rsi
		mov(dx, 1)
		syscall()
	}
	talk(1, 1)
	talk(0, 0)
	for i, to := range registers {
		mov(to, values[i])
	}
	op(enter)
	talk(1, 1)
	talk(0, 0)
	mov(ax, 231) // exit_group
	mov(reg, 0)
	syscall()

	out := make([]byte, head)
	copy(out, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(out[16:], 2)  // ET_EXEC
	le.PutUint16(out[18:], 62) // EM_X86_64
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[24:], base+head)
	le.PutUint64(out[32:], 64)
	le.PutUint16(out[52:], 64)
	le.PutUint16(out[54:], segment)
	le.PutUint16(out[56:], 2)
	for i, at := range []uint64{base, int80Addr} {
		load, size := out[64+i*segment:], uint64(head+len(code))
		le.PutUint32(load, 1)     // PT_LOAD
		le.PutUint32(load[4:], 5) // of code
		le.PutUint64(load[16:], at)
		le.PutUint64(load[24:], at)
		le.PutUint64(load[32:], size)
		le.PutUint64(load[40:], size)
		le.PutUint64(load[48:], 4096)
	}
	return append(out, code...)
}

// TestInt80: what a 64-bit process unmaps or moves by a system call of 32-bit
// processes is not known to be there any more.
func TestInt80(t *testing.T) {
	if !compat.Int80() {
		t.Skip("this machine has no int 0x80")
	}
	b, _ := openBand(t, Options{})
	if b.CompatUnseen() {
		t.Skip("the kernel has neither kprobes (CONFIG_KPROBE_EVENTS) nor raw_syscalls:sys_enter")
	}
	const move, there = 163, 0x30000000
	programs := map[string][]byte{
		"munmap":  int80Program(91, int80Addr, 4096, 0, 0, 0),
		"mremap":  int80Program(move, int80Addr, 4096, 4096, 3, there), // MREMAP_MAYMOVE|MREMAP_FIXED
		"madvise": int80Program(219, int80Addr, 4096, unix.MADV_DONTFORK, 0, 0),
		// These fail, and count.
		"process_madvise": int80Program(440, ^uint32(0), int80Addr, 1, unix.MADV_DONTFORK, 0),
		"io_setup":        int80Program(245, 1, int80Addr, 0, 0, 0),
		"io_destroy":      int80Program(246, int80Addr, 0, 0, 0, 0),

		"getpid": int80Program(20, 0, 0, 0, 0, 0),
	}
	if !b.rings.raw {
		programs["mmap"] = int80Program(192, int80Addr, 0, 0, 0, 0)
		programs["mmap of before"] = int80Program(90, int80Addr, 0, 0, 0, 0)
	}
	changeUnseen(t, b, programs)
}

// TestX32: so it is with what a process unmaps or moves by a system call of the x32 ABI.
func TestX32(t *testing.T) {
	if !compat.X32Works() {
		t.Skip("the kernel has no x32 ABI")
	}
	b, _ := openBand(t, Options{})
	const there = 0x30000000
	changeUnseen(t, b, map[string][]byte{
		"munmap": x32Program(unix.SYS_MUNMAP, int80Addr, 4096, 0, 0, 0),
		"mremap": x32Program(unix.SYS_MREMAP, int80Addr, 4096, 4096, 3, there), // MREMAP_MAYMOVE|MREMAP_FIXED
		"getpid": x32Program(unix.SYS_GETPID, 0, 0, 0, 0, 0),
	})
}

// changeUnseen runs programs that change what they have mapped by calls that the tracepoints
// leave out; one called getpid does not.
func changeUnseen(t *testing.T, b *Band, programs map[string][]byte) {
	t.Helper()
	for what, program := range programs {
		t.Run(what, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "int80")
			if err := os.WriteFile(name, program, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(name)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = in.Close()
				_ = cmd.Wait()
			}()
			look := func() (found, late bool) {
				t.Helper()
				if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				now := b.Now()
				if _, err := b.Drain(); err != nil {
					t.Fatal(err)
				}
				p, ok := b.History.Lookup(cmd.Process.Pid, int80Addr+0x10, now)
				return ok && p.Mapping.File.Name == name, p.Late
			}
			if found, late := look(); !found || late {
				t.Fatalf("before: found %t, late %t", found, late)
			}
			if _, err := in.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if found, late := look(); found && late != (what != "getpid") {
				t.Errorf("after: found %t, late %t", found, late)
			}
		})
	}
}
