package bpffutex

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"ustack/tracefs/syscalls"
)

// recorded returns the bytes in a file of testdata, hexadecimal, by the word before them.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile("testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for line := range strings.Lines(string(b)) {
		word, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || word == "#" {
			continue
		}
		if all[word], err = hex.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestDecodeRecorded: what a kernel wrote for a program whose waits are known (the comment in
// the file says which).
func TestDecodeRecorded(t *testing.T) {
	all := recorded(t)
	var w Wait
	if err := w.decode(all["record"]); err != nil {
		t.Fatal(err)
	}
	if string(w.Comm) != "w" || w.Cmd != syscalls.Wait || w.Shared || w.Val != 2 || w.Result != 0 || w.Err != 0 || w.Cut {
		t.Errorf("%+v", w)
	}
	if d := w.To - w.From; d < 10e6 || d > 100e6 {
		t.Errorf("the wait took %d ns", d)
	}
	if w.TID == w.TGID || w.Memory == 0 || w.Born == 0 {
		t.Errorf("thread %d of process %d, memory %#x, born %d", w.TID, w.TGID, w.Memory, w.Born)
	}
	const program, offset = 1, 0x11ea // after the call of pthread_mutex_lock in hold
	if len(w.Stack) != 3 || w.Stack[program].IsAddress || w.Stack[program].Number != offset || w.Stack[0].BuildID != w.Stack[2].BuildID || w.Stack[0].BuildID == w.Stack[1].BuildID {
		t.Errorf("stack %+v", w.Stack)
	}

	f, err := decodeKey(all["key"])
	if err != nil || f != w.Futex {
		t.Errorf("futex %+v, %v, want %+v", f, err, w.Futex)
	}
	var s Sum
	err = s.decode(all["sum"])
	if err != nil {
		t.Fatal(err)
	}
	const waits = 59
	if s.Results != (Results{Woken: waits}) || s.Values != (Values{Two: waits}) || s.Slept != waits || s.Longs != waits || string(s.Comm) != "w" || s.Seen != (Seen{Plain: true, NoTimeout: true}) {
		t.Errorf("sum %+v", s)
	}
	var n uint64
	for _, c := range s.Buckets {
		n += c
	}
	if n != waits {
		t.Errorf("%d in the buckets, want %d", n, waits)
	}
}

// TestDecodeWrong: what the programs do not write is an error.
func TestDecodeWrong(t *testing.T) {
	good := recorded(t)["record"]
	change := func(at int, v uint32) []byte {
		b := append([]byte(nil), good...)
		binary.NativeEndian.PutUint32(b[at:], v)
		return b
	}
	for name, b := range map[string][]byte{
		"short": good[:recordHead-1], "no stack": good[:recordHead], "stack too large": change(60, uint32(len(good))), "odd stack": change(60, entrySize-1),
		"status": change(recordHead, 7), "process": change(40, 0), "thread": change(44, 1<<31), "time": change(4, 1<<31),
	} {
		var w Wait
		if err := w.decode(b); !errors.Is(err, errFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const efault = 14
	var w Wait
	if err := w.decode(change(60, uint32(1<<32-efault))); err != nil || w.Err != -efault || len(w.Stack) > 0 {
		t.Errorf("without a stack: %+v, %v", w, err)
	}
	for _, n := range []int{0, keySize - 1, keySize + 1} {
		if _, err := decodeKey(make([]byte, n)); !errors.Is(err, errFormat) {
			t.Errorf("key of %d bytes: %v", n, err)
		}
		if err := new(Sum).decode(make([]byte, n)); !errors.Is(err, errFormat) {
			t.Errorf("sum of %d bytes: %v", n, err)
		}
		if _, err := decodeWaiting(make([]byte, 4), make([]byte, n)); !errors.Is(err, errFormat) {
			t.Errorf("wait of %d bytes: %v", n, err)
		}
	}
}

// TestDecodeWaiting: an open wait, one that a signal broke off, and one for several futexes.
func TestDecodeWaiting(t *testing.T) {
	key := binary.NativeEndian.AppendUint32(nil, 42)
	b := make([]byte, begunSize)
	for at, v := range map[int]uint64{0: 1000, 8: 0xabc0, 16: 7, 24: 5} {
		binary.NativeEndian.PutUint64(b[at:], v)
	}
	for at, v := range map[int]uint32{32: uint32(syscalls.WaitBitset) | 0x20000 | 0x10000 | 0x100, 36: 3, 40: 41} {
		binary.NativeEndian.PutUint32(b[at:], v)
	}
	want := Waiting{Futex: Futex{Addr: 0xabc0, Memory: 7, Born: 5, TGID: 41, Shared: true}, TID: 42, From: 1000, Val: 3, Cmd: syscalls.WaitBitset, Timeout: true, Broken: true}
	if w, err := decodeWaiting(key, b); err != nil || w != want {
		t.Errorf("%+v, %v, want %+v", w, err, want)
	}
}

// withCopy returns a record with registers of this machine and a copy of so many bytes of a stack, of
// those that were asked for: register n of struct pt_regs is 1000 + n, and byte n of the stack n.
func withCopy(record []byte, copied, asked uint32) []byte {
	b := append([]byte(nil), record...)
	binary.NativeEndian.PutUint32(b[96:], copied)
	binary.NativeEndian.PutUint32(b[100:], asked)
	for n := range uint64(layouts[runtime.GOARCH].size / 8) {
		b = binary.NativeEndian.AppendUint64(b, 1000+n)
	}
	for n := range copied {
		b = append(b, byte(n))
	}
	return b
}

// TestDecodeCopy: what follows the frames is the registers, and the copy of the stack.
func TestDecodeCopy(t *testing.T) {
	record := recorded(t)["record"]
	b := withCopy(record, 64, 128)
	var w, plain Wait
	if err := errors.Join(w.decode(b), plain.decode(record)); err != nil {
		t.Fatal(err)
	}
	c := w.Copy
	if c == nil || plain.Copy != nil || c.Asked != 128 || len(c.Stack) != 64 || c.Stack[63] != 63 || !reflect.DeepEqual(w.Stack, plain.Stack) {
		t.Fatalf("%+v, without a copy %+v", w, plain)
	}
	if at := (map[string][2]uint64{"amd64": {1016, 1019}, "arm64": {1032, 1031}})[runtime.GOARCH]; c.PC != at[0] || c.SP != at[1] {
		t.Errorf("program counter %d, stack pointer %d", c.PC, c.SP)
	}
	for name, b := range map[string][]byte{"short": b[:len(b)-1], "no registers": b[:len(record)], "large": withCopy(record, MaxCopy+1, MaxCopy+1)} {
		if err := w.decode(b); !errors.Is(err, errFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.decode(record); err != nil || w.Copy != nil {
		t.Errorf("the copy of the record before: %+v, %v", w.Copy, err)
	}
}

// TestLayouts: where struct pt_regs of each architecture has its registers, by their numbers in DWARF.
func TestLayouts(t *testing.T) {
	for name, test := range map[string]struct {
		size   int
		pc, sp uint64
		n      int
		some   map[uint8]uint64
	}{
		// r15 is the first, then r14 to r12, rbp, rbx, r11 to r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, flags, rsp, ss.
		"amd64": {168, 16, 19, 17, map[uint8]uint64{0: 10, 1: 12, 2: 11, 3: 5, 4: 13, 5: 14, 6: 4, 7: 19, 8: 9, 12: 3, 15: 0, 16: 16}},
		// x0 to x30, sp, pc.
		"arm64": {272, 32, 31, 33, map[uint8]uint64{0: 0, 29: 29, 30: 30, 31: 31, 32: 32}},
	} {
		var b []byte
		for n := range uint64(test.size / 8) {
			b = binary.NativeEndian.AppendUint64(b, n)
		}
		var c Copy
		if !c.decode(layouts[name], append(b, 7), 1, 1) || c.decode(layouts[name], b, 1, 1) {
			t.Errorf("%s: another size", name)
		}
		c.decode(layouts[name], append(b, 7), 1, 1)
		got := make(map[uint8]uint64)
		c.Registers(func(n uint8, v uint64) { got[n] = v })
		if c.PC != test.pc || c.SP != test.sp || len(got) != test.n {
			t.Errorf("%s: %+v, %v", name, c, got)
		}
		for n, want := range test.some {
			if got[n] != want {
				t.Errorf("%s: register %d is that at %d, want %d", name, n, got[n], want)
			}
		}
	}
	if new(Copy).decode(layouts["riscv64"], make([]byte, 1000), 1, 1) {
		t.Error("an architecture that is not known")
	}
}

// FuzzDecode: whatever comes is decoded within bounds, or an error.
func FuzzDecode(f *testing.F) {
	all := recorded(f)
	for _, b := range all {
		f.Add(b)
	}
	f.Add(withCopy(all["record"], 64, 128))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w Wait
		if err := w.decode(b); err == nil {
			if w.To < w.From || w.TID <= 0 || w.TGID <= 0 || len(w.Stack) > maxFrames || w.Err > 0 || w.Err < 0 && len(w.Stack) > 0 || len(w.Comm) > 16 {
				t.Errorf("%+v", w)
			}
			again := Wait{Stack: make([]Frame, 0, maxFrames), Comm: []byte("another")}
			if err := again.decode(b); err != nil || !reflect.DeepEqual(again.Futex, w.Futex) || len(again.Stack) != len(w.Stack) {
				t.Errorf("decoded again: %+v, %v, first %+v", again, err, w)
			}
		}
		var s Sum
		if err := s.decode(b); err == nil && (s.Time < 0 || len(s.Comm) > 16) {
			t.Errorf("%+v", s)
		}
		if k, err := decodeKey(b); err == nil && k == (Futex{}) && len(b) != keySize {
			t.Errorf("a key of %d bytes", len(b))
		}
	})
}
