package image

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"
)

func open(t *testing.T, name string) *Image {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestDebugData: the packed symbol table of a stripped library has the static
// function that .dynsym lacks.
func TestDebugData(t *testing.T) {
	x := open(t, "testdata/mini.elf")
	if x.Table(elf.SHT_SYMTAB) != nil {
		t.Fatal("the library is not stripped")
	}
	mini, err := x.DebugData()
	if err != nil || mini == nil {
		t.Fatalf("%v, %v", mini, err)
	}
	table := mini.Table(elf.SHT_SYMTAB)
	names, err := mini.Strings(table)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := mini.Symbols(table, func(s Symbol) {
		name, _ := names.String(uint64(s.Name))
		got = append(got, name)
	}); err != nil || len(got) != 1 || got[0] != "work" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestUnpack: a packed section is what the standard library makes of it.
func TestUnpack(t *testing.T) {
	x := open(t, "testdata/zlib.elf")
	f, err := elf.Open("testdata/zlib.elf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed := 0
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_COMPRESSED == 0 {
			continue
		}
		packed++
		want, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		d, err := x.Data(x.Section(s.Name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Bytes(0, d.Size()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d (%v)", s.Name, len(got), len(want), err)
		}
	}
	if packed == 0 {
		t.Fatal("no section is packed")
	}
}

// TestAddress: only code has addresses, and only one each.
func TestAddress(t *testing.T) {
	x := &Image{Segments: []Segment{
		{Off: 0, Addr: 0x400000, FileSize: 0x100},
		{Exec: true, Off: 0x100, Addr: 0x401100, FileSize: 0x100},
		{Exec: true, Off: 0x1c0, Addr: 0x5001c0, FileSize: 0x80},
		{Exec: true, Off: 0x1e0, Addr: 0x5001e0, FileSize: 0x80},
	}}
	for off, want := range map[uint64]uint64{
		0x10: 0, 0x100: 0x401100, 0x1bf: 0x4011bf, 0x1c0: 0, 0x1ff: 0, 0x200: 0x500200, 0x230: 0x500230, 0x25f: 0x50025f, 0x260: 0, ^uint64(0): 0,
	} {
		if got, ok := x.Address(off); got != want || ok != (want != 0) {
			t.Errorf("%#x: %#x, %v, want %#x", off, got, ok, want)
		}
	}
}

func TestIsMarker(t *testing.T) {
	for _, c := range []struct {
		m    elf.Machine
		name string
		want bool
	}{
		{elf.EM_AARCH64, "$x", true}, {elf.EM_AARCH64, "$d.12", true}, {elf.EM_AARCH64, "$xy", false}, {elf.EM_AARCH64, "x", false},
		{elf.EM_ARM, "$a", true}, {elf.EM_ARM, "$t", true}, {elf.EM_RISCV, "$xrv64i2p1", true}, {elf.EM_X86_64, "$x", false},
		{elf.EM_X86_64, ".L12", true}, {elf.EM_X86_64, "", true}, {elf.EM_X86_64, "f(.text)", false},
	} {
		if got := (&Image{Machine: c.m}).IsMarker(c.name); got != c.want {
			t.Errorf("%v %q: %v", c.m, c.name, got)
		}
	}
}
