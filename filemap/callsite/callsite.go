// Package callsite looks at machine code for the calls that return addresses
// come from.
package callsite

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Longest is how many bytes of code the longest call has.
const Longest = 7

// Known reports whether calls of a machine are known.
func Known(m elf.Machine) bool {
	return m == elf.EM_X86_64 || m == elf.EM_386 || m == elf.EM_AARCH64
}

// Ends reports whether code ends in a call, so that what follows can be a
// return address. The machine must be Known; code is what stands before the
// address, at least Longest bytes of it.
func Ends(m elf.Machine, code []byte) bool {
	if len(code) < Longest {
		return false
	}
	code = code[len(code)-Longest:]
	if m == elf.EM_AARCH64 {
		word := uint32(code[3]) | uint32(code[4])<<8 | uint32(code[5])<<16 | uint32(code[6])<<24
		return word>>26 == 0x25 || word&0xfffffc1f == 0xd63f0000 || // bl, blr
			word&0xfefff800 == 0xd63f0800 // blraa and its like, which authenticate the pointer
	}
	if code[Longest-5] == 0xe8 { // call rel32
		return true
	}
	for n := 2; n <= Longest; n++ { // call r/m64: ff /2, with sib and displacement
		if code[Longest-n] == 0xff && code[Longest-n+1]>>3&7 == 2 && modRMLength(code[Longest-n+1:]) == n-1 {
			return true
		}
	}
	return false
}

// Syscall reports whether code ends in a system call: a thread that is in it, or is
// about to return from it, is at the address after it. code is what stands before
// the address.
func Syscall(m elf.Machine, code []byte) bool {
	if m == elf.EM_AARCH64 {
		if len(code) < 4 {
			return false
		}
		return binary.LittleEndian.Uint32(code[len(code)-4:])&0xffe0001f == 0xd4000001 // svc
	}
	if m != elf.EM_X86_64 && m != elf.EM_386 || len(code) < 2 {
		return false
	}
	switch string(code[len(code)-2:]) {
	case "\x0f\x05", "\x0f\x34", "\xcd\x80": // syscall, sysenter, int $0x80
		return true
	}
	return false
}

// Entry is the way by which a thread has entered a system call.
type Entry uint8

// The ways. They differ in how calls are numbered.
const (
	UnknownEntry Entry = iota
	NoEntry            // no instruction that makes one is there
	Own                // syscall, or svc: with numbers of the file's own machine
	Compat             // int $0x80, or sysenter: with numbers of 32-bit programs of x86, in any program
)

// EntryOf returns by which instruction code ends. code is what stands before the address
// at which a thread is that has made a call.
func EntryOf(m elf.Machine, code []byte) Entry {
	switch {
	case !Known(m):
		return UnknownEntry
	case !Syscall(m, code):
		return NoEntry
	case m == elf.EM_AARCH64:
		return Own
	case code[len(code)-2] != 0x0f || code[len(code)-1] != 0x05:
		return Compat
	case m == elf.EM_386:
		return UnknownEntry
	}
	return Own
}

// Sigreturn reports whether code begins with the system call that ends a signal
// handler (rt_sigreturn): a handler returns there although it did not call it, so
// the return address is where the function begins.
func Sigreturn(m elf.Machine, code []byte) bool {
	for _, want := range sigreturns(m) {
		if bytes.HasPrefix(code, []byte(want)) {
			return true
		}
	}
	return false
}

// SigreturnSize is how many bytes of code Sigreturn looks at.
const SigreturnSize = 9

func sigreturns(m elf.Machine) []string {
	switch m {
	case elf.EM_X86_64:
		return []string{
			"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", // mov $15, %rax; syscall
			"\xb8\x0f\x00\x00\x00\x0f\x05",         // mov $15, %eax; syscall
		}
	case elf.EM_AARCH64:
		return []string{"\x68\x11\x80\xd2\x01\x00\x00\xd4"} // mov x8, #139; svc #0
	}
	return nil
}

// modRMLength returns the length of a ModRM byte with what belongs to it.
func modRMLength(b []byte) int {
	mod, rm := b[0]>>6, b[0]&7
	n := 1
	if mod != 3 && rm == 4 {
		n++
		if len(b) > 1 && mod == 0 && b[1]&7 == 5 {
			return n + 4
		}
	}
	switch {
	case mod == 1:
		return n + 1
	case mod == 2, mod == 0 && rm == 5:
		return n + 4
	}
	return n
}
