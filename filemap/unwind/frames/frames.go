// Package frames looks at machine code to find out whether it keeps frame
// pointers (psABI of x86-64, 3.2.2; AAPCS64, 6.4.6).
package frames

import (
	"bytes"
	"debug/elf"

	"ustack/filemap/callsite"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/health"
	"ustack/filemap/unwind/table"
)

// Bounds on the functions that are taken apart.
const (
	maxSamples  = 3000
	maxFunction = 16 << 10
)

// Counts is what Count has found.
type Counts struct {
	// Looked functions call others; Keeping of them set up a frame pointer.
	Keeping, Looked int
	// Calls are how many calls there are in Bytes of code that was taken apart.
	Calls, Bytes uint64
}

// Count takes functions apart that call others: what calls nothing needs no
// frame, with or without frame pointers. Functions are guessed from the code if
// there are none. part, which can be nil, reports whether one is a piece of a
// function that has its beginning elsewhere.
func Count(x *image.Image, functions []table.Span, part func(table.Span) bool) (c Counts) {
	if x.Machine != elf.EM_X86_64 && x.Machine != elf.EM_AARCH64 {
		return c
	}
	if len(functions) == 0 {
		functions = guessed(x)
	}
	every := max(len(functions)/maxSamples, 1)
	for i := 0; i < len(functions); i += every {
		f := functions[i]
		code, err := x.CodeAt(f.Start, min(f.End-f.Start, maxFunction))
		if err != nil {
			continue
		}
		calls := Calls(x.Machine, code, f.Start)
		c.Calls += calls
		c.Bytes += uint64(len(code))
		if calls == 0 || part != nil && part(f) {
			continue
		}
		c.Looked++
		if callsite.KeepsFrame(x.Machine, code) {
			c.Keeping++
		}
	}
	return c
}

// Check says what the numbers of Count mean.
func (c *Counts) Check() health.Keep {
	const few = 4
	switch {
	case c.Looked < few:
		return health.Unknown
	case c.Keeping*10 >= c.Looked*7:
		return health.Kept
	case c.Keeping*10 <= c.Looked*4:
		return health.Dropped
	}
	return health.Mixed
}

// Calls returns how many calls code has. It stops at code that cannot be
// decoded.
func Calls(m elf.Machine, code []byte, addr uint64) (n uint64) {
	callsite.Flow(m, code, addr, func(s callsite.Step) {
		if s.Kind == callsite.Call || s.Kind == callsite.CallIndirect {
			n++
		}
	})
	return n
}

// AllCalls calls f for the addresses that calls return to in code that is not known to be
// a function, and can have data in between: calls that do not lead to code of the file
// are none.
func AllCalls(x *image.Image, code []byte, addr uint64, f func(site uint64)) {
	callsite.Scan(x.Machine, code, addr, func(s callsite.Step) {
		if s.Kind == callsite.CallIndirect || s.Kind == callsite.Call && x.IsCode(s.Target) {
			f(s.End())
		}
	})
}

// Plain reports whether frame pointers lead through code that a file has no table
// for: in Go's code, and in files of arm64 whose code keeps them and has hardly any table
// but for the start files of the compiler. Code that a file with tables leaves out is
// written by hand and has its own ways with registers. Code of x86-64 is followed (package
// follow).
func Plain(x *image.Image, tables []*table.Table) bool {
	if x.IsGo() {
		return true
	}
	if Followed(x) || !HardlyCovered(x, tables) {
		return false
	}
	c := Count(x, nil, nil)
	return c.Check() == health.Kept
}

// Followed reports whether code that a file has no table for is followed.
func Followed(x *image.Image) bool { return x.Machine == elf.EM_X86_64 && !x.IsGo() }

// HardlyCovered reports whether tables are about less than half of the code.
func HardlyCovered(x *image.Image, tables []*table.Table) bool {
	code, has := uint64(0), uint64(0)
	for i := range x.Sections {
		if s := &x.Sections[i]; s.Flags&elf.SHF_EXECINSTR != 0 {
			code += s.Size
		}
	}
	for _, t := range tables {
		t.Functions(func(s table.Span) bool {
			has += s.End - s.Start
			return has < code
		})
	}
	return has < code/2
}

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

// step returns how far instructions can be apart.
func step(m elf.Machine) int {
	if m == elf.EM_AARCH64 {
		return 4
	}
	return 1
}

// returnAt returns the length of the return that code begins with, 0 if it does
// not.
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

// padding returns how many bytes of padding code begins with: what does
// nothing, in the forms that assemblers write.
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
