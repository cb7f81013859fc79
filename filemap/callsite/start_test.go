package callsite

import (
	"debug/elf"
	"strings"
	"testing"
)

// Instructions of a function that begins a thread.
const (
	pushRBX   = "\x53"
	makeRoom  = "\x48\x83\xec\x20"             // sub $0x20, %rsp
	storeArg  = "\x48\x89\x7c\x24\x08"         // mov %rdi, 8(%rsp)
	loadRAX   = "\x48\x8b\x44\x24\x08"         // mov 8(%rsp), %rax
	loadRBX   = "\x48\x8b\x5c\x24\x08"         // mov 8(%rsp), %rbx
	headSize  = "\xbe\x18\x00\x00\x00"         // mov $24, %esi
	headOf    = "\x48\x8d\xb8\xe0\x02\x00\x00" // lea 0x2e0(%rax), %rdi
	setList   = "\xb8\x11\x01\x00\x00"         // mov $273, %eax
	syscall   = "\x0f\x05"
	loadArg   = "\x48\x8b\xb8\x40\x06\x00\x00" // mov 0x640(%rax), %rdi
	callStart = "\xff\x90\x38\x06\x00\x00"     // call *0x638(%rax)
	trap      = "\x0f\x0b"
)

func TestStartCall(t *testing.T) {
	const register = loadRAX + headSize + headOf + setList + syscall
	enter := pushRBX + makeRoom + storeArg
	for _, c := range []struct {
		what, before, after string // the call
		ok                  bool
	}{
		{"as in glibc", enter + register + loadRAX + loadArg + callStart, trap, true},
		{"list after the call", enter + loadRAX + loadArg + callStart, register + trap, true},
		{"base in another register", enter + register + loadRBX + "\xff\x93\x38\x06\x00\x00", trap, true},
		{"in r12", enter + register + "\x4c\x8b\x64\x24\x08" + "\x41\xff\x94\x24\x38\x06\x00\x00", trap, true},
		{"endbr64", "\xf3\x0f\x1e\xfa" + enter + register + loadRAX + callStart, trap, true},
		{"after a jump", enter + register + "\xeb\x00" + loadRAX + callStart, trap, true},
		{"moved to another register", enter + register + loadRBX + "\x48\x89\xd8" + callStart, trap, true}, // mov %rbx, %rax
		{"base plus a number", enter + register + loadRBX + "\x48\x8d\x43\x00" + callStart, trap, true},    // lea 0(%rbx), %rax
		{"compared", enter + register + loadRAX + "\x80\xb8\xf8\x08\x00\x00\x00" + callStart, trap, true},  // cmpb $0, 0x8f8(%rax)

		{"no list", enter + loadRAX + loadArg + callStart, trap, false},
		{"another system call", enter + loadRAX + headSize + headOf + "\xb8\x12\x01\x00\x00" + syscall + loadRAX + callStart, trap, false},
		{"a list of another size", enter + loadRAX + "\xbe\x0c\x00\x00\x00" + headOf + setList + syscall + loadRAX + callStart, trap, false},
		{"list of something else", enter + "\x48\x8b\x44\x24\x18" + headSize + headOf + setList + syscall + loadRAX + callStart, trap, false},
		{"two lists", enter + register + register + loadRAX + callStart, trap, false},
		{"nothing kept", pushRBX + makeRoom + loadRAX + register + loadRAX + callStart, trap, false},
		{"argument changed before", pushRBX + makeRoom + "\x31\xff" + storeArg + register + loadRAX + callStart, trap, false},
		{"kept again and again", pushRBX + makeRoom + storeArg + register + loadRAX + callStart, "\xeb\xd6" + trap, false},
		{"place written again", enter + register + "\x48\x89\x5c\x24\x08" + loadRAX + callStart, trap, false},            // mov %rbx, 8(%rsp)
		{"half of it written", enter + register + "\xc7\x44\x24\x0c\x00\x00\x00\x00" + loadRAX + callStart, trap, false}, // movl $0, 12(%rsp)
		{"written from below", enter + register + "\x0f\x11\x04\x24" + loadRAX + callStart, trap, false},                 // movups %xmm0, (%rsp)
		{"written by an index", enter + register + "\x48\x89\x44\x8c\x18" + loadRAX + callStart, trap, false},            // mov %rax, 24(%rsp,%rcx,4)
		{"written after", enter + register + loadRAX + callStart, "\x48\x89\x5c\x24\x08" + trap, false},
		{"its address taken", enter + register + "\x48\x8d\x7c\x24\x08" + loadRAX + callStart, trap, false}, // lea 8(%rsp), %rdi
		{"with AVX", enter + register + "\xc5\xf8\x11\x04\x24" + loadRAX + callStart, trap, false},          // vmovups %xmm0, (%rsp)
		{"jump table", enter + register + loadRAX + callStart, "\xff\xe1" + trap, false},
		{"register changed", enter + register + loadRAX + "\x31\xc0" + callStart, trap, false},            // xor %eax, %eax
		{"register loaded again", enter + register + loadRAX + "\x48\x8b\x00" + callStart, trap, false},   // mov (%rax), %rax
		{"register counted up", enter + register + loadRAX + "\x48\x83\xc0\x08" + callStart, trap, false}, // add $8, %rax
		{"exchanged", enter + register + loadRAX + "\x48\x87\xc3" + callStart, trap, false},               // xchg %rax, %rbx
		{"a call between", enter + register + loadRAX + "\xe8\x00\x00\x00\x00" + callStart, trap, false},
		{"a system call between", enter + register + loadRAX + syscall + callStart, trap, false},
		{"jumped to from elsewhere", enter + register + loadRAX + callStart, "\xeb\xf8" + trap, false}, // to the call
		{"with an index", enter + register + loadRAX + "\xff\x94\x88\x38\x06\x00\x00", trap, false},    // call *0x638(%rax,%rcx,4)
		{"by a register", enter + register + loadRAX + "\xff\xd0", trap, false},
		{"of another segment", enter + register + loadRAX + "\x64" + callStart, trap, false},
		{"far", enter + register + loadRAX + "\xff\x98\x38\x06\x00\x00", trap, false},
		{"direct", enter + register + loadRAX + "\xe8\x00\x00\x00\x00", trap, false},
		{"cannot be decoded", enter + register + loadRAX + callStart, "\x06", false},
		{"kept above its frame", pushRBX + makeRoom + "\x48\x89\x7c\x24\x28" + strings.ReplaceAll(register+loadRAX, "\x24\x08", "\x24\x28") + callStart, trap, false},
	} {
		const at = 0x1000
		got, ok := StartCall([]byte(c.before+c.after), at, at+uint64(len(c.before)), frame)
		want := Start{}
		if c.ok {
			want = Start{Head: 0x2e0, Pointer: 0x638}
		}
		if got != want && ok || ok != c.ok {
			t.Errorf("%s: %+v, %v", c.what, got, ok)
		}
		if _, ok := StartCall([]byte(c.before+c.after), at, at+uint64(len(c.before))-1, frame); ok {
			t.Errorf("%s: in the middle of a call", c.what)
		}
		if _, ok := StartCall([]byte(c.before+c.after), at, at+uint64(len(c.before)), unknownHeight); ok {
			t.Errorf("%s: without a frame", c.what)
		}
	}
}

// frame is the frame after pushRBX and makeRoom, with the return address.
func frame(uint64) (int64, bool) { return 0x20 + 8 + 8, true }

func unknownHeight(uint64) (int64, bool) { return 0, false }

// TestStartCallFrame: a call whose stack pointer is above the place may write
// over it.
func TestStartCallFrame(t *testing.T) {
	code := pushRBX + makeRoom + storeArg + loadRAX + headSize + headOf + setList + syscall + loadRAX + callStart
	const at = 0x1000
	ret := uint64(at + len(code))
	for n, want := range map[int64]bool{0x30: true, 0x28: true, 0x20: false} {
		_, ok := StartCall([]byte(code), at, ret, func(addr uint64) (int64, bool) {
			if addr == ret-uint64(len(callStart)) {
				return n, true
			}
			return frame(addr)
		})
		if ok != want {
			t.Errorf("%#x: %v", n, ok)
		}
	}
}

func FuzzStartCall(f *testing.F) {
	code := pushRBX + makeRoom + storeArg + loadRAX + headSize + headOf + setList + syscall + loadRAX + callStart
	f.Add([]byte(code), uint16(len(code)))
	f.Fuzz(func(t *testing.T, code []byte, ret uint16) {
		const at = 0x1000
		got, ok := StartCall(code, at, at+uint64(ret), frame)
		if ok && (int(ret) > len(code) || !Ends(elf.EM_X86_64, append(make([]byte, Longest), code[:ret]...))) {
			t.Errorf("% x: %+v at %d", code, got, ret)
		}
	})
}
