package perf

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// stackRecord makes a sample of a stack: registers by their place in the mask.
func stackRecord(arch string, abi uint64, reg func(i int) uint64, room, filled int) []byte {
	put := binary.NativeEndian
	b := make([]byte, headerSize, 256)
	put.PutUint32(b, unix.PERF_RECORD_SAMPLE)
	b = put.AppendUint64(b, 7<<32|6) // TID, PID
	b = put.AppendUint64(b, 1234)
	b = put.AppendUint64(b, 99) // the event
	b = put.AppendUint64(b, 3)  // CPU
	for _, v := range []uint64{6, ^uint64(127), 0xffffffff81000000, ^uint64(511), 0x401000, 0x402000} {
		b = put.AppendUint64(b, v) // of the kernel, and of user space
	}
	put.PutUint64(b[headerSize+32:], 5)
	b = put.AppendUint64(b, abi)
	if abi != 0 {
		for i := range bits.OnesCount64(registerMask(arch)) {
			b = put.AppendUint64(b, reg(i))
		}
	}
	b = put.AppendUint64(b, uint64(room))
	if room > 0 {
		b = append(b, make([]byte, room)...)
		b = put.AppendUint64(b, uint64(filled))
	}
	put.PutUint16(b[6:], uint16(len(b)))
	return b
}

var stackEvent = Event{ID: true, Tracepoint: 5, Registers: true, StackBytes: 64, CallChain: 10}

// TestDecodeStack: registers have the numbers of their machine.
func TestDecodeStack(t *testing.T) {
	byPlace := func(i int) uint64 { return 0x1000 + uint64(i) }
	for _, c := range []struct {
		arch    string
		abi     ABI
		machine Machine
		known   int
		sp, pc  uint64
		others  map[int]uint64
	}{
		{"amd64", ABI64, AMD64, 17, 0x1007, 0x1008, map[int]uint64{0: 0x1000, 1: 0x1003, 2: 0x1002, 3: 0x1001, 6: 0x1006, 8: 0x100c, 15: 0x1013}},
		{"amd64", ABI32, I386, 9, 0x1007, 0x1008, map[int]uint64{0: 0x1000, 1: 0x1002, 2: 0x1003, 3: 0x1001, 5: 0x1006, 6: 0x1004, 7: 0x1005}},
		{"arm64", ABI64, ARM64, 33, 0x101f, 0x1020, map[int]uint64{0: 0x1000, 29: 0x101d, 30: 0x101e}},
		{"arm64", ABI32, ARM, 16, 0x100d, 0x1020, map[int]uint64{0: 0x1000, 11: 0x100b, 14: 0x100e}},
	} {
		var s StackSample
		if err := stackEvent.decodeStack(c.arch, stackRecord(c.arch, uint64(c.abi), byPlace, 64, 40), &s); err != nil {
			t.Fatal(err)
		}
		sp, _ := s.Regs.SP()
		pc, _ := s.Regs.PC()
		if s.PID != 6 || s.TID != 7 || s.Time != 1234 || s.CPU != 3 || s.ABI != c.abi || s.Regs.Machine != c.machine || s.Regs.Known() != c.known ||
			sp != c.sp || pc != c.pc || len(s.Stack) != 40 || !s.Short {
			t.Errorf("%s: %+v", c.machine, s)
		}
		if len(s.Chain) != 2 || s.Chain[0] != 0x401000 || s.Chain[1] != 0x402000 {
			t.Errorf("%s: the call chain %#x", c.machine, s.Chain)
		}
		for n, want := range c.others {
			if got, ok := s.Regs.Get(n); !ok || got != want {
				t.Errorf("%s: register %d is %#x, %v", c.machine, n, got, ok)
			}
		}
	}
}

// TestUnknownRegisters: what the kernel does not report is unknown.
func TestUnknownRegisters(t *testing.T) {
	var s StackSample
	old := func(i int) uint64 { // before Linux 5.11: bx and r12 to r15
		if i == 1 || i >= 16 {
			return ^uint64(0)
		}
		return uint64(i)
	}
	if err := stackEvent.decodeStack("amd64", stackRecord("amd64", 2, old, 0, 0), &s); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Regs.Get(3); ok || s.Regs.Known() != 12 || !s.Short || s.Stack != nil {
		t.Errorf("of an old kernel %+v", s)
	}
	one := func(i int) uint64 { // a program may have that in a register
		if i == 1 {
			return ^uint64(0)
		}
		return uint64(i)
	}
	if err := stackEvent.decodeStack("amd64", stackRecord("amd64", 2, one, 0, 0), &s); err != nil || s.Regs.Known() != 17 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := stackEvent.decodeStack("amd64", stackRecord("amd64", 0, nil, 0, 0), &s); err != nil || s.Regs.Known() != 0 || s.ABI != ABINone {
		t.Errorf("of the kernel %+v, %v", s, err)
	}
	if _, ok := s.Regs.SP(); ok {
		t.Error("a thread of the kernel has a stack pointer")
	}
	if v, ok := s.Regs.Get(-1); ok || v != 0 {
		t.Error("there is a register -1")
	}
}

// rawRecord makes a sample with a call chain and the record of a tracepoint.
func rawRecord(chain []uint64, raw int) []byte {
	put := binary.NativeEndian
	b := make([]byte, headerSize, 256)
	put.PutUint32(b, unix.PERF_RECORD_SAMPLE)
	for _, v := range []uint64{7<<32 | 6, 1234, 99, 3, uint64(len(chain))} {
		b = put.AppendUint64(b, v)
	}
	for _, v := range chain {
		b = put.AppendUint64(b, v)
	}
	b = put.AppendUint32(b, uint32(raw))
	for i := range raw {
		b = append(b, byte(i))
	}
	put.PutUint16(b[6:], uint16(len(b)))
	return b
}

// lateRecord makes a stack that comes later.
func lateRecord(cookie uint64, n uint64, addrs ...uint64) []byte {
	put := binary.NativeEndian
	b := make([]byte, headerSize, 256)
	put.PutUint32(b, recordDeferred)
	put.PutUint16(b[4:], 2)
	for _, v := range append([]uint64{cookie, n}, append(addrs, 7<<32|6, 1234, 99, 3)...) {
		b = put.AppendUint64(b, v)
	}
	put.PutUint16(b[6:], uint16(len(b)))
	return b
}

var rawEvent = Event{ID: true, Tracepoint: 5, Raw: true, CallChain: 127, DeferChain: true}

// TestDecodeRaw: a sample has the record of its tracepoint, and its stack or the request for
// it, which has a stack of its own (FORMATS 5.1).
func TestDecodeRaw(t *testing.T) {
	const user, deferred = ^uint64(511), ^uint64(639)
	var s StackSample
	if err := rawEvent.DecodeStack(rawRecord([]uint64{user, 0x401000, 0x402000}, 20), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Raw) != 20 || s.Raw[19] != 19 || !slices.Equal(s.Chain, []uint64{0x401000, 0x402000}) || s.Deferred || s.PID != 6 || s.TID != 7 || s.CPU != 3 {
		t.Errorf("%+v", s)
	}
	if err := rawEvent.DecodeStack(rawRecord([]uint64{deferred, 0xb00000006}, 4), &s); err != nil {
		t.Fatal(err)
	}
	if !s.Deferred || s.Cookie != 0xb00000006 || len(s.Chain) != 0 || len(s.Raw) != 4 {
		t.Errorf("%+v", s)
	}
	if err := rawEvent.DecodeLate(lateRecord(0xb00000006, 2, 0x401000, 0x402000), &s); err != nil {
		t.Fatal(err)
	}
	if !s.Late || s.Cookie != 0xb00000006 || !slices.Equal(s.Chain, []uint64{0x401000, 0x402000}) || s.PID != 6 || s.TID != 7 || s.Time != 1234 || s.CPU != 3 || s.Raw != nil {
		t.Errorf("%+v", s)
	}
	long := rawRecord(nil, 4)
	binary.NativeEndian.PutUint32(long[len(long)-8:], 12)
	for what, err := range map[string]error{
		"a record longer than the sample": rawEvent.DecodeStack(long, &s),
		"no record":                       rawEvent.DecodeStack(rawRecord(nil, 0), &s),
		"too many addresses":              rawEvent.DecodeLate(lateRecord(1, 3, 0x401000), &s),
		"another record":                  rawEvent.DecodeLate(rawRecord(nil, 4), &s),
	} {
		if !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzDecodeRaw: no bytes do harm.
func FuzzDecodeRaw(f *testing.F) {
	f.Add(rawRecord([]uint64{^uint64(511), 0x401000}, 20), false)
	f.Add(rawRecord([]uint64{^uint64(639), 5}, 4), false)
	f.Add(rawRecord([]uint64{^uint64(639)}, 4), false)
	f.Add(lateRecord(5, 2, 1, 2), true)
	f.Fuzz(func(t *testing.T, b []byte, late bool) {
		decode := rawEvent.DecodeStack
		if late {
			decode = rawEvent.DecodeLate
		}
		var s StackSample
		if err := decode(b, &s); err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Error(err)
			}
			return
		}
		if len(s.Raw) > len(b) || len(s.Chain) > len(b)/8 || s.Time < 0 || s.Late != late {
			t.Errorf("%d bytes give %+v", len(b), s)
		}
	})
}

// FuzzDecodeStack: no bytes do harm.
func FuzzDecodeStack(f *testing.F) {
	f.Add(stackRecord("amd64", 2, func(i int) uint64 { return uint64(i) }, 64, 40), false)
	f.Add(stackRecord("arm64", 1, func(i int) uint64 { return uint64(i) }, 64, 64), true)
	f.Add(stackRecord("amd64", 0, nil, 0, 0), false)
	f.Fuzz(func(t *testing.T, b []byte, arm bool) {
		arch := "amd64"
		if arm {
			arch = "arm64"
		}
		var s StackSample
		if err := stackEvent.decodeStack(arch, b, &s); err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Error(err)
			}
			return
		}
		if len(s.Stack) > len(b) || len(s.Chain) > len(b)/8 || s.Time < 0 || s.Regs.Known() > MaxRegisters {
			t.Errorf("%d bytes give %+v", len(b), s)
		}
	})
}
