package lines

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/symbol/image"
)

// size is how many bytes of code the function of these tests has.
const size = 8000

// inline is an inlined function or block, as it is written.
type inline struct {
	low, high int
	block     bool
	open      bool // a block without addresses
	empty     bool // an open one that has a list of them, with none in it
	number    int
	inner     []*inline
}

// prologue is the code, and the abbreviations: a unit, a function, an inlined
// function, the same without children, a block, a block without addresses, and a
// function without code.
const prologue = `.text
.globl _start
.type _start,@function
_start: .fill 8000,1,0x90
ret
.size _start,.-_start
.section .debug_abbrev,"",@progbits
.uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7; .byte 0,0
.uleb128 2; .uleb128 0x2e; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7; .uleb128 3; .uleb128 8; .byte 0,0
.uleb128 3; .uleb128 0x1d; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7; .uleb128 0x31; .uleb128 0x13; .uleb128 0x59; .uleb128 6; .byte 0,0
.uleb128 4; .uleb128 0x0b; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7; .byte 0,0
.uleb128 5; .uleb128 0x0b; .byte 1; .byte 0,0
.uleb128 6; .uleb128 0x2e; .byte 0; .uleb128 3; .uleb128 8; .byte 0,0
.byte 0
.section .debug_info,"",@progbits
.Lcu: .long .Lend-.Lst
.Lst: .value 4
.long .debug_abbrev
.byte 8
.uleb128 1; .quad _start; .quad 8000
.La: .uleb128 6; .string "inner"
.uleb128 2; .quad _start; .quad 8000; .string "outer"
`

// assemble makes a program of one function with these in it.
func assemble(t testing.TB, list []*inline) (*image.Image, *Data) {
	t.Helper()
	var b strings.Builder
	b.WriteString(prologue)
	var write func(list []*inline)
	write = func(list []*inline) {
		for _, in := range list {
			switch {
			case in.open && in.empty:
				fmt.Fprintf(&b, ".uleb128 4; .quad _start+%d; .quad 0\n", in.low)
			case in.open:
				b.WriteString(".uleb128 5\n")
			case in.block:
				fmt.Fprintf(&b, ".uleb128 4; .quad _start+%d; .quad %d\n", in.low, in.high-in.low)
			default:
				fmt.Fprintf(&b, ".uleb128 3; .quad _start+%d; .quad %d; .long .La-.Lcu; .long %d\n", in.low, in.high-in.low, in.number)
			}
			write(in.inner)
			b.WriteString(".byte 0\n")
		}
	}
	write(list)
	b.WriteString(".byte 0\n.byte 0\n.Lend:\n")
	dir := t.TempDir()
	source, out := filepath.Join(dir, "x.s"), filepath.Join(dir, "x")
	if err := os.WriteFile(source, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("gcc", "-nostdlib", "-no-pie", "-o", out, source).CombinedOutput()
	if err != nil {
		t.Skipf("gcc: %v\n%s", err, text)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	x, err := image.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(x, nil)
	if err != nil || d == nil {
		t.Fatalf("no debug information (%v)", err)
	}
	return x, d
}

// at is what is inlined at an offset: numbers, innermost first.
func at(list []*inline, offset int) (numbers []int, inside bool) {
	for _, in := range list {
		if !in.open && (offset < in.low || offset >= in.high) {
			continue
		}
		numbers, inside = at(in.inner, offset)
		if in.open && !inside {
			continue
		}
		if !in.open && !in.block {
			numbers = append(numbers, in.number)
		}
		return numbers, true
	}
	return nil, false
}

// random makes inlined functions that lie in each other and over each other.
func random(r *rand.Rand, low, high, depth int, number *int) (list []*inline) {
	for range 1 + r.IntN(6) {
		*number++
		in := &inline{number: *number, block: r.IntN(4) == 0, open: r.IntN(6) == 0, empty: r.IntN(2) == 0}
		in.low = low + r.IntN(high-low)
		in.high = in.low + 1 + r.IntN(high-in.low)
		if depth > 0 && in.high-in.low > 4 {
			in.inner = random(r, in.low, in.high, depth-1, number)
		}
		list = append(list, in)
	}
	return list
}

func numbers(l *Location) (list []int) {
	for _, in := range l.Inlined {
		list = append(list, in.CallLine)
	}
	return list
}

// Walking the entries and the tree of them find what lies at an address.
func TestInlinesRandom(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 0
		list := random(r, 0, size, 5, &n)
		x, d := assemble(t, list)
		code, ok := x.Address(codeOffset(x))
		if !ok {
			t.Fatal("no code")
		}
		walks, trees := 0, 0
		for range 400 {
			offset := r.IntN(size)
			l, ok, err := d.Find(code+uint64(offset), "")
			if err != nil || !ok {
				t.Fatalf("seed %d, offset %d: %v, %v", seed, offset, ok, err)
			}
			want, _ := at(list, offset)
			if got := numbers(&l); !slices.Equal(got, want) {
				t.Fatalf("seed %d, offset %d: %v, want %v", seed, offset, got, want)
			}
			for _, w := range d.units[0].loaded.walks {
				if w.tree != nil {
					trees++
				} else {
					walks++
				}
			}
		}
		if walks == 0 || trees == 0 {
			t.Errorf("seed %d: %d walks, %d trees", seed, walks, trees)
		}
	}
}

// codeOffset is where the code is in the file.
func codeOffset(x *image.Image) uint64 {
	for _, s := range x.Segments {
		if s.Exec {
			return s.Off
		}
	}
	return 0
}

// Many that lie over each other are read some times, not once for each address.
func TestInlinesWork(t *testing.T) {
	const n, addresses = 20000, 2000
	for _, overlap := range []bool{true, false} {
		var list []*inline
		for i := range n {
			in := &inline{number: i, low: i % (size / 2), high: size}
			if !overlap {
				in.low = size - 1 - i%size
				in.high = in.low + 1
			}
			list = append(list, in)
		}
		x, d := assemble(t, list)
		code, _ := x.Address(codeOffset(x))
		found := 0
		for i := range addresses {
			l, ok, err := d.Find(code+uint64(i*size/addresses), "")
			if err != nil || !ok {
				t.Fatalf("address %d: %v, %v", i, ok, err)
			}
			found += len(l.Inlined)
		}
		if found != addresses {
			t.Errorf("overlap %v: %d inlined functions at %d addresses", overlap, found, addresses)
		}
		if most := (scans + 3) * int(d.info.Size()); d.inlined > most {
			t.Errorf("overlap %v: %d bytes were read of %d", overlap, d.inlined, d.info.Size())
		}
	}
}
