package symbolize

import (
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
)

// TestFlatten holds spans against the plain rule: of the symbols that hold an
// address, the one that begins last, and of those the shortest.
func TestFlatten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var list []image.Symbol
		for i := range 1 + random.IntN(8) {
			list = append(list, image.Symbol{Addr: uint64(random.IntN(40)), Size: 1 + uint64(random.IntN(25)), Name: uint32(i)})
		}
		slices.SortStableFunc(list, byPlace)
		list = slices.CompactFunc(list, func(a, b image.Symbol) bool { return byPlace(a, b) == 0 })
		spans := flatten(slices.Clone(list))
		for addr := uint64(0); addr < 70; addr++ {
			want := "none"
			for _, s := range list { // in order: the last one wins
				if s.Addr <= addr && addr < s.Addr+s.Size {
					want = fmt.Sprint(s.Name, " from ", s.Addr)
				}
			}
			got := "none"
			for i, s := range spans {
				if i > 0 && s.start < spans[i-1].end {
					t.Fatalf("spans overlap: %v", spans)
				}
				if s.start <= addr && addr < s.end {
					got = fmt.Sprint(s.name, " from ", s.start-uint64(s.back))
				}
			}
			if got != want {
				t.Fatalf("%v at %d: %s, want %s", list, addr, got, want)
			}
		}
	}
}

func TestBetter(t *testing.T) {
	type alias struct {
		name string
		kind elf.SymType
		bind elf.SymBind
	}
	for _, c := range [][]alias{ // the best one first
		{{"pthread_mutex_lock", elf.STT_FUNC, elf.STB_GLOBAL}, {"__pthread_mutex_lock", elf.STT_FUNC, elf.STB_GLOBAL}, {"___pthread_mutex_lock", elf.STT_FUNC, elf.STB_LOCAL}},
		{{"__work", elf.STT_FUNC, elf.STB_LOCAL}, {"work", elf.STT_NOTYPE, elf.STB_GLOBAL}},
		{{"write", elf.STT_FUNC, elf.STB_WEAK}, {"write@GLIBC_2.2", elf.STT_FUNC, elf.STB_GLOBAL}},
		{{"b", elf.STT_FUNC, elf.STB_GLOBAL}, {"a", elf.STT_FUNC, elf.STB_LOCAL}},
		{{"a", elf.STT_FUNC, elf.STB_GLOBAL}, {"b", elf.STT_FUNC, elf.STB_WEAK}},
	} {
		for i := range c {
			for j := range c {
				a, b := c[i], c[j]
				got := better(image.Symbol{Type: a.kind, Bind: a.bind}, a.name, image.Symbol{Type: b.kind, Bind: b.bind}, b.name)
				if got != (i < j) {
					t.Errorf("better(%s, %s) = %v", a.name, b.name, got)
				}
			}
		}
	}
}

// TestExtend: what has no size reaches to the next symbol, or the end of its
// section, but not out of a symbol that it lies in.
func TestExtend(t *testing.T) {
	x := &image.Image{Sections: []image.Section{{}, {Addr: 100, Size: 100}}}
	list := []image.Symbol{
		{Addr: 100, Size: 20, Section: 1}, {Addr: 100, Section: 1}, {Addr: 110, Section: 1}, // inside
		{Addr: 120, Section: 1}, {Addr: 130, Size: 10, Section: 1}, {Addr: 180, Section: 1},
	}
	got := extend(x, nil, slices.Clone(list), []uint64{100, 100, 110, 120, 130, 150, 180})
	want := []image.Symbol{list[0], {Addr: 120, Size: 10, Section: 1}, list[4], {Addr: 180, Size: 20, Section: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestThinned: in a table that has lost the symbols that other files do not see, a
// symbol without a size is not taken for what comes after it.
func TestThinned(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the lengths of the instructions are those of x86-64")
	}
	full := build(t, "gcc", "-O1", "-fno-toplevel-reorder", "testdata/src/thinned.c")
	thinned, linked := full+".thinned", full+".linked"
	tool(t, "strip", "-x", "-o", thinned, full)
	tool(t, "gcc", "-O1", "-fno-toplevel-reorder", "-Wl,-x", "-o", linked, "testdata/src/thinned.c")
	for _, bin := range []string{full, thinned, linked} {
		s, f := newSymbols(t, Options{}), fileOf(t, bin)
		src := s.source(f)
		src.load()
		var start uint64 // of framed
		for _, i := range src.indexes {
			for _, p := range i.spans {
				if name, _ := i.names.String(uint64(p.name)); name == "framed" {
					start = p.start
				}
			}
		}
		if start == 0 {
			t.Fatalf("%s: framed has no place", bin)
		}
		at := func(addr uint64) *symbol.Name {
			off, ok := src.bin.image.Offset(addr)
			if !ok {
				t.Fatalf("%s: no segment has %#x", bin, addr)
			}
			return s.Name(f, off, true)
		}
		if n := at(start + 1); n.Function != "framed" || n.Offset != 1 {
			t.Errorf("%s: framed is %+v", bin, n)
		}
		before, after := at(start-1), at(start+4) // three bytes of each function, then hidden
		if bin == full && (before.Function != "plain" || after.Function != "hidden") || bin != full && (before.Reason != symbol.Stripped || after.Reason != symbol.Stripped) {
			t.Errorf("%s: plain is %+v, hidden %+v", bin, before, after)
		}
	}
}
