package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"ustack/tracefs/capturetest"
)

// tinyStacks are the stacks of a program in testdata/tiny.
func tinyStacks(t *testing.T, u *Unwinder, name string) (elf.Machine, []selfStack, Space) {
	t.Helper()
	m, s, space := openTiny(t, u, name)
	var all []selfStack
	for one, ok := s.next(); ok; one, ok = s.next() {
		all = append(all, one)
	}
	if len(all) == 0 {
		t.Fatal("no stacks")
	}
	return m, all, space
}

// isPrefix reports whether frames are the first ones of others.
func isPrefix(a, b []Frame) bool {
	if len(a) > len(b) {
		return false
	}
	for i := range a {
		if a[i].PC != b[i].PC {
			return false
		}
	}
	return true
}

// TestShort: a copy that is too short ends the stack, and says how much more one
// frame needs; with that much, there is one.
func TestShort(t *testing.T) {
	for _, name := range []string{"amd64", "arm64-pac", "amd64-fp"} {
		u := New(0)
		defer u.Close()
		m, all, space := tinyStacks(t, u, name)
		for _, one := range all[:3] {
			in := one.input(m, space)
			whole, _ := u.Unwind(in, nil)
			in.Stack.Bytes = one.stack[:0]
			before, grown := 0, 0
			for {
				got, end := u.Unwind(in, nil)
				if !isPrefix(got, whole) || grown > 0 && len(got) <= before {
					t.Fatalf("%s: %d bytes: %v %+v, before %d frames", name, len(in.Stack.Bytes), got, end, before)
				}
				if end.Why == Root {
					if len(got) != len(whole) || end.Used > uint64(len(one.stack)) || end.Used == 0 {
						t.Errorf("%s: %d frames of %d, %+v", name, len(got), len(whole), end)
					}
					break
				}
				if end.Why != Short || end.Want == 0 {
					t.Fatalf("%s: %+v", name, end)
				}
				before, grown = len(got), grown+1
				in.Stack.Bytes = one.stack[:min(uint64(len(in.Stack.Bytes))+end.Want, uint64(len(one.stack)))]
				if m == elf.EM_AARCH64 || name == "amd64-fp" {
					before-- // the frame record is two words
				}
			}
		}
	}
}

// TestRead: the same stacks come from memory that is read when needed.
func TestRead(t *testing.T) {
	u := New(0)
	defer u.Close()
	m, all, space := tinyStacks(t, u, "amd64")
	for _, one := range all {
		in := one.input(m, space)
		whole, _ := u.Unwind(in, nil)
		in.Stack.Bytes = nil
		at := in.Stack.At
		in.Stack.Read = func(addr uint64, b []byte) bool {
			off := addr - at
			if off >= uint64(len(one.stack)) || uint64(len(one.stack))-off < uint64(len(b)) {
				return false
			}
			copy(b, one.stack[off:])
			return true
		}
		got, end := u.Unwind(in, nil)
		if end.Why != Root || len(got) != len(whole) || !isPrefix(got, whole) {
			t.Errorf("%d frames of %d, %+v", len(got), len(whole), end)
		}
		in.Stack.Read = func(uint64, []byte) bool { return false }
		if got, end = u.Unwind(in, nil); end.Why != Elsewhere || !isPrefix(got, whole) {
			t.Errorf("%+v", end)
		}
	}
}

// TestUnknownRegisters: with the program counter and the stack pointer only, as
// the kernel gives them of a blocked thread, stacks are right as far as they go.
func TestUnknownRegisters(t *testing.T) {
	u := New(0)
	defer u.Close()
	m, all, space := tinyStacks(t, u, "amd64")
	callers := 0
	for _, one := range all {
		in := one.input(m, space)
		whole, _ := u.Unwind(in, nil)
		in.Regs = Registers{}
		in.Regs.Set(AMD64PC, one.regs[AMD64PC])
		in.Regs.Set(AMD64SP, one.regs[AMD64SP])
		got, end := u.Unwind(in, nil)
		if !isPrefix(got, whole) || end.Why != Root && (end.Why != UnknownRegister || end.Register != AMD64FP) {
			t.Errorf("%v, %+v", got, end)
		}
		callers += len(got) - 1
		in.Regs.forget(AMD64SP)
		if got, end = u.Unwind(in, nil); len(got) != 1 || end.Why != UnknownRegister || end.Register != AMD64SP {
			t.Errorf("%v, %+v", got, end)
		}
		in.Regs.forget(AMD64PC)
		if got, end = u.Unwind(in, nil); len(got) != 0 || end.Why != UnknownRegister || end.Register != AMD64PC {
			t.Errorf("%v, %+v", got, end)
		}
	}
	if callers == 0 {
		t.Error("no callers without the frame pointer")
	}
}

// TestEnds: other reasons for which a stack ends.
func TestEnds(t *testing.T) {
	u := New(0)
	defer u.Close()
	m, all, space := tinyStacks(t, u, "amd64")
	one := all[0]
	in := one.input(m, space)
	whole, _ := u.Unwind(in, nil)
	in.Max = 3
	if got, end := u.Unwind(in, nil); len(got) != 3 || end.Why != Limit || end.File == nil {
		t.Errorf("%v, %+v", got, end)
	}
	in.Max = 0
	// The first return address is replaced.
	at := bytes.Index(one.stack, binary.LittleEndian.AppendUint64(nil, whole[1].PC))
	for _, c := range []struct {
		to  uint64
		why Why
	}{
		{0, Root},
		{12345, Contradiction},           // nothing there
		{in.Stack.At, Contradiction},     // the stack
		{whole[1].PC + 1, Contradiction}, // no call before it
		{1<<63 | whole[1].PC, Contradiction},
	} {
		in.Stack.Bytes = bytes.Clone(one.stack)
		binary.LittleEndian.PutUint64(in.Stack.Bytes[at:], c.to)
		if got, end := u.Unwind(in, nil); len(got) != 1 || end.Why != c.why {
			t.Errorf("%#x: %v, %+v", c.to, got, end)
		}
	}
	in.Stack.Bytes = one.stack
	in.Regs.Set(AMD64PC, 12345)
	if got, end := u.Unwind(in, nil); len(got) != 0 || end.Why != NoMap || end.Addr != 12345 {
		t.Errorf("%v, %+v", got, end)
	}
	in.Machine = elf.EM_386
	if got, end := u.Unwind(in, nil); len(got) != 0 || end.Why != NoInformation {
		t.Errorf("%v, %+v", got, end)
	}
}

// TestFileGone: a return address in a file that cannot be read is no contradiction.
func TestFileGone(t *testing.T) {
	u := New(0)
	defer u.Close()
	m, all, space := tinyStacks(t, u, "amd64")
	gone := u.File(Source{Key: "gone", Name: "gone", Open: func() (*Binary, error) { return nil, os.ErrNotExist }})
	const at = 1 << 40
	space = space.(areas).with(area{Mapping: Mapping{Start: at, End: at + 1<<20, Exec: true, File: gone}})
	in := all[0].input(m, space)
	whole, _ := u.Unwind(in, nil)
	i := bytes.Index(all[0].stack, binary.LittleEndian.AppendUint64(nil, whole[1].PC))
	in.Stack.Bytes = bytes.Clone(all[0].stack)
	binary.LittleEndian.PutUint64(in.Stack.Bytes[i:], at+0x100)
	got, end := u.Unwind(in, nil)
	if len(got) != 1 || end.Why != NoMap || end.Addr != at+0x100 || end.Detail != os.ErrNotExist.Error() {
		t.Errorf("%v, %+v", got, end)
	}
}

// TestJIT: code of a compiler that keeps frame pointers, between code with tables.
func TestJIT(t *testing.T) {
	u := New(0)
	defer u.Close()
	stack := make([]byte, 64)
	put := func(i int, v uint64) { binary.LittleEndian.PutUint64(stack[8*i:], v) }
	put(2, 0x7000+40) // the record that rbp points to
	put(3, fuzzJIT+0x20)
	put(5, 0)
	put(6, fuzzJIT+0x30)
	in := Input{Machine: elf.EM_X86_64, Space: fuzzSpace{}, Stack: Stack{At: 0x7000, Bytes: stack}}
	in.Regs.Set(AMD64PC, fuzzJIT+0x10)
	in.Regs.Set(AMD64SP, 0x7000)
	in.Regs.Set(AMD64FP, 0x7010)
	got, end := u.Unwind(&in, nil)
	if len(got) != 3 || got[2].PC != fuzzJIT+0x30 || got[2].How != FramePointer || end.Why != Root {
		t.Errorf("%+v, %+v", got, end)
	}
	put(2, 0x7010) // a cycle
	if got, end = u.Unwind(&in, nil); len(got) != 2 || end.Why != Contradiction {
		t.Errorf("%+v, %+v", got, end)
	}
}

// TestSignalFrame: a signal handler's caller by the layout of the kernel, where
// no table is.
func TestSignalFrame(t *testing.T) {
	for _, c := range []struct {
		machine              elf.Machine
		code                 string
		pc, sp, lr           uint8
		context, first, ipAt uint64
	}{
		{elf.EM_X86_64, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", AMD64PC, AMD64SP, 0, 40, 15, 16},
		{elf.EM_AARCH64, "\x68\x11\x80\xd2\x01\x00\x00\xd4", ARM64PC, ARM64SP, ARM64LR, 128 + 176 + 8, 31, 32},
	} {
		t.Run(fmt.Sprint(c.machine), func(t *testing.T) {
			u := New(0)
			defer u.Close()
			file := elfFile(c.machine, map[string][]byte{".text": []byte(c.code)})
			space := fuzzSpace{u.File(Source{Key: "x", Name: "x", Open: func() (*Binary, error) {
				return &Binary{ReaderAt: bytes.NewReader(file), Size: int64(len(file))}, nil
			}})}
			stack := make([]byte, 1024)
			binary.LittleEndian.PutUint64(stack[c.context+8*c.first:], 0x9000) // the stack pointer before
			binary.LittleEndian.PutUint64(stack[c.context+8*c.ipAt:], fuzzJIT+0x50)
			in := Input{Machine: c.machine, Space: space, Stack: Stack{At: 0x7000, Bytes: stack}}
			in.Regs.Set(c.pc, fuzzCode+0x200)
			in.Regs.Set(c.sp, 0x7000)
			got, end := u.Unwind(&in, nil)
			if len(got) != 2 || !got[0].Trampoline || got[1].PC != fuzzJIT+0x50 || !got[1].Exact || got[1].How != Signal || got[1].SP != 0x9000 || end.Why != Root {
				t.Errorf("%+v, %+v", got, end)
			}
		})
	}
}

// TestMemory: files make room for others, and are read again.
func TestMemory(t *testing.T) {
	u := New(maxPages*pageSize + 24<<hotBits + 64<<10)
	m, all, space := tinyStacks(t, u, "amd64")
	opened, closed := 0, 0
	var data = capturetest.Gunzip(t, "testdata/tiny/amd64.gz")
	for round := range 3 {
		for i := range 100 {
			s := Source{Key: fmt.Sprint(i), Name: "x", Open: func() (*Binary, error) {
				opened++
				return &Binary{ReaderAt: bytes.NewReader(data), Size: int64(len(data)), Close: func() { closed++ }}, nil
			}}
			a := append(areas(nil), space.(areas)...)
			for j := range a {
				if a[j].Exec && a[j].File != nil && a[j].name != "[vdso]" {
					a[j].File = u.File(s)
				}
			}
			if got, end := u.Unwind(all[0].input(m, a), nil); end.Why != Root {
				t.Fatalf("round %d, file %d: %v, %+v", round, i, got, end)
			}
		}
	}
	if n := u.Memory(); n > u.limit+(64<<10) || opened <= 100 || opened-closed > 50 {
		t.Errorf("%d bytes, %d times opened, %d times closed", n, opened, closed)
	}
	u.Close()
	if opened != closed {
		t.Errorf("%d times opened, %d times closed", opened, closed)
	}
}

// TestDebugFile: a stripped program, and its .debug_frame in a separate file. Without it,
// the code is followed.
func TestDebugFile(t *testing.T) {
	u := New(0)
	defer u.Close()
	m, all, space := tinyStacks(t, u, "amd64-debug")
	whole := capturetest.Gunzip(t, "testdata/tiny/amd64-debug.gz")
	stripped := bytes.ReplaceAll(whole, []byte(".debug_frame\x00"), []byte(".other_frame\x00"))
	asked := 0
	source := Source{Key: "stripped", Name: "x",
		Open: func() (*Binary, error) {
			return &Binary{ReaderAt: bytes.NewReader(stripped), Size: int64(len(stripped))}, nil
		},
	}
	a := append(areas(nil), space.(areas)...)
	for round, want := range []How{Code, CFI} {
		for j := range a {
			if a[j].Exec && a[j].name != "[vdso]" {
				a[j].File = u.File(source)
			}
		}
		for _, one := range all {
			in := one.input(m, a)
			if got, end := u.Unwind(in, nil); end.Why != Root || len(got) <= len(one.chain) || got[1].How != want {
				t.Fatalf("round %d: %v, %+v", round, got, end)
			}
		}
		source.Key = "with debug file"
		source.Debug = func() (*Binary, error) {
			asked++
			return &Binary{ReaderAt: bytes.NewReader(whole), Size: int64(len(whole))}, nil
		}
	}
	if asked != 1 {
		t.Errorf("asked for the debug file %d times", asked)
	}
	broken := Source{Key: "broken", Open: func() (*Binary, error) { return nil, nil }}
	for j := range a {
		if a[j].Exec {
			a[j].File = u.File(broken)
		}
	}
	if got, end := u.Unwind(all[0].input(m, a), nil); len(got) != 1 || end.Why != NoInformation || end.Detail == "" {
		t.Errorf("%v, %+v", got, end)
	}
}
