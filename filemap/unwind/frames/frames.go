// Package frames looks at machine code to find out whether it keeps frame
// pointers (psABI of x86-64, 3.2.2; AAPCS64, 6.4.6).
package frames

import (
	"bytes"
	"debug/elf"

	"ustack/filemap/callsite"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/table"
)

// Bounds on the functions that are taken apart.
const (
	maxSamples  = 3000
	maxFunction = 16 << 10
)

// Keep is whether code keeps frame pointers.
type Keep uint8

const (
	// Unknown: there is too little code to decide.
	Unknown Keep = iota
	// Kept by seven of ten functions that call others: all but those of the
	// compiler's start files in a small program.
	Kept
	// Dropped: by six of ten at least. The others need them, for a frame whose
	// size varies.
	Dropped
	// Mixed: neither.
	Mixed
)

// String is one word.
func (k Keep) String() string {
	return [...]string{"unknown", "kept", "dropped", "mixed"}[min(k, Mixed)]
}

// Count takes functions apart that call others: what calls nothing needs no
// frame, with or without frame pointers. keeping of looked functions set up a
// frame pointer. Functions that no table has named are guessed from the code if
// there are none.
func Count(x *image.Image, functions []table.Span) (keeping, looked int) {
	if x.Machine != elf.EM_X86_64 && x.Machine != elf.EM_AARCH64 {
		return 0, 0
	}
	if len(functions) == 0 {
		functions = guessed(x)
	}
	every := max(len(functions)/maxSamples, 1)
	for i := 0; i < len(functions); i += every {
		f := functions[i]
		code, err := x.CodeAt(f.Start, min(f.End-f.Start, maxFunction))
		if err != nil || !calls(x.Machine, code, f.Start) {
			continue
		}
		looked++
		if keeps(x.Machine, code) {
			keeping++
		}
	}
	return keeping, looked
}

// Judge says what the numbers of Count mean.
func Judge(keeping, looked int) Keep {
	const few = 4
	switch {
	case looked < few:
		return Unknown
	case keeping*10 >= looked*7:
		return Kept
	case keeping*10 <= looked*4:
		return Dropped
	}
	return Mixed
}

// calls reports whether code has a call that is not its last instruction. What
// cannot be decoded is taken for no call.
func calls(m elf.Machine, code []byte, addr uint64) (yes bool) {
	n := 0
	callsite.Flow(m, code, addr, func(s callsite.Step) {
		if s.Kind == callsite.Call || s.Kind == callsite.CallIndirect {
			n++
		}
	})
	return n > 0
}

// keeps reports whether code makes the frame pointer point to its frame: mov
// %rsp,%rbp or lea n(%rsp),%rbp on x86-64, the latter as Go does; add x29, sp, n
// on arm64.
func keeps(m elf.Machine, code []byte) bool {
	if m == elf.EM_AARCH64 {
		return callsite.SetsFrame(code) || setsGo(code)
	}
	return bytes.Contains(code, []byte("\x48\x89\xe5")) || bytes.Contains(code, []byte("\x48\x8b\xec")) ||
		bytes.Contains(code, []byte("\x48\x8d\x6c\x24")) || bytes.Contains(code, []byte("\x48\x8d\xac\x24"))
}

// setsGo reports whether code of arm64 has sub x29, sp, #8, as Go's has.
func setsGo(code []byte) bool { return bytes.Contains(code, []byte("\xfd\x23\x00\xd1")) }

// guessed are functions of a file without a table: what lies between a return
// with padding after it and the next such place.
func guessed(x *image.Image) (out []table.Span) {
	s := x.Section(".text")
	if s == nil {
		return nil
	}
	code, err := x.CodeAt(s.Addr, min(s.Size, 4<<20))
	if err != nil {
		return nil
	}
	begin := 0
	for at := 0; at < len(code) && len(out) < maxSamples; {
		n := returnAt(x.Machine, code[at:])
		if n == 0 {
			at += step(x.Machine)
			continue
		}
		at += n
		next := at + padding(x.Machine, code[at:])
		const aligned = 16
		if x.Machine == elf.EM_X86_64 && (s.Addr+uint64(next))%aligned != 0 {
			continue
		}
		out = append(out, table.Span{Start: s.Addr + uint64(begin), End: s.Addr + uint64(at)})
		begin, at = next, next
	}
	return out
}

// step is how far instructions can be apart.
func step(m elf.Machine) int {
	if m == elf.EM_AARCH64 {
		return 4
	}
	return 1
}

// returnAt is the length of the return that code begins with, 0 if it does not.
func returnAt(m elf.Machine, code []byte) int {
	if m == elf.EM_AARCH64 {
		for _, ret := range [...]string{"\xc0\x03\x5f\xd6", "\xff\x0b\x5f\xd6", "\xff\x0f\x5f\xd6"} { // ret, retaa, retab
			if bytes.HasPrefix(code, []byte(ret)) {
				return len(ret)
			}
		}
		return 0
	}
	if code[0] == 0xc3 {
		return 1
	}
	return 0
}

// padding is how many bytes of padding code begins with: what does nothing, in
// the forms that assemblers write.
func padding(m elf.Machine, code []byte) (n int) {
	if m == elf.EM_AARCH64 {
		for bytes.HasPrefix(code[n:], []byte("\x1f\x20\x03\xd5")) {
			n += 4
		}
		return n
	}
	for n < len(code) {
		switch rest := code[n:]; {
		case rest[0] == 0x90 || rest[0] == 0xcc || rest[0] == 0x66 || rest[0] == 0x2e:
			n++
		case bytes.HasPrefix(rest, []byte("\x0f\x1f\x00")):
			n += 3
		case bytes.HasPrefix(rest, []byte("\x0f\x1f\x40")):
			n += 4
		case bytes.HasPrefix(rest, []byte("\x0f\x1f\x44")):
			n += 5
		case bytes.HasPrefix(rest, []byte("\x0f\x1f\x80")):
			n += 7
		case bytes.HasPrefix(rest, []byte("\x0f\x1f\x84")):
			n += 8
		default:
			return n
		}
	}
	return n
}
