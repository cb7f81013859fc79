package table

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ustack/filemap/symbol/image"
)

// simpleRowOf is a row for tests: words are the ones that follow the row's info.
type simpleRowOf struct {
	start byte
	info  byte
	words []int8
}

// simpleFunction is a function for tests.
type simpleFunction struct {
	start, size uint32
	info, info2 byte
	repeat      byte
	rows        []simpleRowOf
}

// buildSimple writes a section that lies at 0x1000.
func buildSimple(version int, arm, sorted bool, functions ...simpleFunction) []byte {
	const addr = 0x1000
	le := binary.LittleEndian
	each := []int{17, 20, 16}[version-1]
	var index, rows []byte
	n := 0
	for i, f := range functions {
		at := len(rows)
		if version == 3 {
			rows = le.AppendUint16(rows, uint16(len(f.rows)))
			rows = append(rows, f.info, f.info2, f.repeat)
		}
		for _, r := range f.rows {
			n++
			rows = append(rows, r.start, r.info)
			for _, w := range r.words {
				rows = append(rows, byte(w))
			}
		}
		here := 0
		if version > 1 {
			here = 28 + i*each
		}
		if version == 3 {
			index = le.AppendUint64(index, uint64(f.start)-uint64(addr+here))
			index = le.AppendUint32(index, f.size)
			index = le.AppendUint32(index, uint32(at))
			continue
		}
		index = le.AppendUint32(index, f.start-uint32(addr+here))
		index = le.AppendUint32(index, f.size)
		index = le.AppendUint32(index, uint32(at))
		index = le.AppendUint32(index, uint32(len(f.rows)))
		index = append(index, f.info)
		if version == 2 {
			index = append(index, f.repeat, 0, 0)
		}
	}
	flags, abi, ra := byte(0), byte(simpleAMD64), byte(0xf8)
	if sorted {
		flags |= simpleSorted
	}
	if version > 1 {
		flags |= simpleHere
	}
	if arm {
		abi, ra = simpleAArch64, 0
	}
	h := []byte{0xe2, 0xde, byte(version), flags, abi, 0, ra, 0}
	for _, v := range []int{len(functions), n, len(rows), 0, len(index)} {
		h = le.AppendUint32(h, uint32(v))
	}
	return slices.Concat(h, index, rows)
}

// simpleSection has a function of ordinary rows, a PLT and, in version 3, a
// function of flexible rows.
func simpleSection(version int, arm, unsorted bool) []byte {
	plain := simpleFunction{start: 0x200, size: 0x40, rows: []simpleRowOf{
		{0, 1 | 1<<1, []int8{8}}, {1, 1 | 2<<1, []int8{16, -16}}, {4, 0 | 2<<1, []int8{16, -16}}, {0x30, 1 | 1<<1, []int8{8}}}}
	if arm {
		plain.rows = []simpleRowOf{{0, 1 | 1<<1, []int8{0}}, {4, 1 | 1<<1 | 1<<7, []int8{0}}, {8, 1 | 3<<1 | 1<<7, []int8{32, -24, -32}}}
	}
	functions := []simpleFunction{plain,
		{start: 0x300, size: 0x80, info: 1 << 4, repeat: 16, rows: []simpleRowOf{{0, 1 | 1<<1, []int8{8}}, {11, 1 | 1<<1, []int8{16}}}}}
	if version > 1 {
		functions = append(functions, simpleFunction{start: 0x380, size: 0x10, rows: []simpleRowOf{{0, 0, nil}}})
	}
	if version == 3 {
		functions = append(functions, simpleFunction{start: 0x400, size: 0x40, info: 1 << 7, info2: 1, rows: []simpleRowOf{
			{0, 5 << 1, []int8{10<<3 | 1, 0, 0, 6<<3 | 3, 0}}, {9, 5 << 1, []int8{6<<3 | 3, -8, 0, 6<<3 | 3, 0}}, {20, 2 << 1, []int8{7<<3 | 1, 8}}}})
	}
	if unsorted {
		slices.Reverse(functions)
	}
	return buildSimple(version, arm, !unsorted, functions...)
}

// TestSFrame: rows of all versions, sorted or not.
func TestSFrame(t *testing.T) {
	fp := func(k Kind, n int64) []Rule { return []Rule{{Kind: k, Of: 6, N: n}} }
	ra := Rule{Kind: At, Of: 16, N: -8}
	amd := []struct {
		addr uint64
		base Rule
		ret  Rule
		fp   []Rule
		from int // the first version that has it
	}{
		{0x200, Rule{Kind: IsRegister, Reg: 7, N: 8}, ra, fp(Same, 0), 1},
		{0x202, Rule{Kind: IsRegister, Reg: 7, N: 16}, ra, fp(At, -16), 1},
		{0x22f, Rule{Kind: IsRegister, Reg: 6, N: 16}, ra, fp(At, -16), 1},
		{0x23f, Rule{Kind: IsRegister, Reg: 7, N: 8}, ra, fp(Same, 0), 1},
		{0x310, Rule{Kind: IsRegister, Reg: 7, N: 8}, ra, fp(Same, 0), 1},
		{0x32c, Rule{Kind: IsRegister, Reg: 7, N: 16}, ra, fp(Same, 0), 1},
		{0x388, Rule{Kind: IsRegister, Reg: 7}, Rule{Kind: Undefined, Of: 16}, nil, 2},
		{0x400, Rule{Kind: IsRegister, Reg: 10}, ra, []Rule{{Kind: AtRegister, Of: 6, Reg: 6}}, 3},
		{0x410, Rule{Kind: AtRegister, Reg: 6, N: -8}, ra, []Rule{{Kind: AtRegister, Of: 6, Reg: 6}}, 3},
		{0x420, Rule{Kind: IsRegister, Reg: 7, N: 8}, ra, fp(Same, 0), 3},
	}
	for version := 1; version <= 3; version++ {
		for _, unsorted := range []bool{false, true} {
			table := &Table{Form: SFrame, machine: fuzzMachine(false)}
			var err error
			if table.simple, err = openSimple(image.MemoryData(simpleSection(version, false, unsorted)), 0x1000, table.machine); err != nil {
				t.Fatal(version, err)
			}
			for _, c := range amd {
				r, err := table.Find(c.addr)
				if c.from > version {
					if r != nil {
						t.Errorf("version %d: %#x: %+v", version, c.addr, r)
					}
					continue
				}
				c.base.Of = 0
				if err != nil || r == nil || r.Base != c.base || r.Return != c.ret || !slices.Equal(r.Others, c.fp) || !r.Few || r.Signal != (c.addr >= 0x400) {
					t.Errorf("version %d: %#x: %+v, %v, want %+v", version, c.addr, r, err, c)
				}
			}
			for _, addr := range []uint64{0x1ff, 0x240, 0x500} {
				if r, err := table.Find(addr); r != nil || err != nil {
					t.Errorf("version %d: %#x: %+v, %v", version, addr, r, err)
				}
			}
		}
	}
}

// TestSFrameARM64: return addresses in a register, in the stack, signed.
func TestSFrameARM64(t *testing.T) {
	for version := 1; version <= 3; version++ {
		table := &Table{Form: SFrame, machine: fuzzMachine(true)}
		var err error
		if table.simple, err = openSimple(image.MemoryData(simpleSection(version, true, false)), 0x1000, table.machine); err != nil {
			t.Fatal(version, err)
		}
		for _, c := range []struct {
			addr   uint64
			ret    Rule
			signed bool
		}{
			{0x200, Rule{Kind: In, Of: 30, N: 30}, false},
			{0x204, Rule{Kind: In, Of: 30, N: 30}, true},
			{0x220, Rule{Kind: At, Of: 30, N: -24}, true},
		} {
			r, err := table.Find(c.addr)
			if err != nil || r == nil || r.Return != c.ret || r.Signed != c.signed {
				t.Errorf("version %d: %#x: %+v, %v, want %+v", version, c.addr, r, err, c)
			}
		}
	}
}

// TestSFrameOfBinutils: what the assembler writes says the same as .eh_frame.
func TestSFrameOfBinutils(t *testing.T) {
	for _, compiler := range []string{"gcc", "aarch64-linux-gnu-gcc"} {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			out := filepath.Join(dir, "program")
			cmd := exec.Command(compiler, "-O2", "-Wa,--gsframe", "-mbranch-protection=pac-ret", "-o", out, "../testdata/self.c")
			if compiler == "gcc" {
				cmd.Args = slices.Delete(cmd.Args, 3, 4)
			}
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%v\n%s", err, text)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			x, err := image.Open(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			simple, err := Open(x, x, SFrame)
			if err != nil {
				t.Skipf("the linker has kept no .sframe: %v", err)
			}
			frames, err := Open(x, x, EHFrame)
			if err != nil {
				t.Fatal(err)
			}
			same := 0
			for i := range x.Sections {
				s := &x.Sections[i]
				if s.Name != ".text" {
					continue
				}
				for addr := s.Addr; addr < s.Addr+s.Size; addr++ {
					a, errA := simple.Find(addr)
					b, errB := frames.Find(addr)
					if a == nil || b == nil {
						if errA != nil || errB != nil {
							t.Error(errA, errB)
						}
						continue
					}
					if a.Base != b.Base || a.Return != b.Return || a.Signed != b.Signed {
						t.Fatalf("%#x: %+v, .eh_frame has %+v", addr, a, b)
					}
					same++
				}
			}
			t.Logf("version %d: %d addresses", simple.simple.version, same)
			if same == 0 {
				t.Error("nothing compared")
			}
		})
	}
}
