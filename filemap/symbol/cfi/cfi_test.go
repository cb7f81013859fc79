package cfi

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/symbol/image"
	read "ustack/filemap/unwind/table"
)

// library is a C library of this machine, with what has to be there to read it.
func library(t testing.TB) string {
	for _, pattern := range []string{"/usr/lib/*/libc.so.6", "/usr/lib64/libc.so.6", "/lib/*/libc.so.6"} {
		if names, err := filepath.Glob(pattern); err == nil && len(names) > 0 {
			return names[0]
		}
	}
	t.Skip("no libc.so.6 here")
	return ""
}

func open(t testing.TB, b []byte) (*image.Image, *Table, error) {
	t.Helper()
	x, err := image.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	table, err := Open(x)
	return x, table, err
}

// TestTruth: functions and rows of a large library are the same as readelf's.
func TestTruth(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip(err)
	}
	name := library(t)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	x, table, err := open(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if x.Machine != elf.EM_X86_64 {
		t.Skip("the names of registers here are those of x86-64")
	}
	out, err := exec.Command(readelf, "--debug-dump=frames-interp", name).Output()
	if len(out) == 0 { // it fails for other sections' sake
		t.Fatal(err)
	}
	functions, rows, wrong := 0, 0, 0
	var f *Function
	var columns []string
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		words := strings.Fields(sc.Text())
		switch {
		case len(words) > 5 && words[3] == "FDE":
			var start, end uint64
			if _, err := fmt.Sscanf(words[5], "pc=%x..%x", &start, &end); err != nil {
				t.Fatal(sc.Text())
			}
			f = table.Find(start)
			functions++
			if f == nil || f.Start != start || f.End != end || table.Find(end-1) == nil {
				t.Errorf("%q: %+v", sc.Text(), f)
				f = nil
			}
		case len(words) > 3 && words[3] == "CIE" || len(words) > 2 && words[2] == "ZERO":
			f = nil
		case len(words) > 1 && words[0] == "LOC":
			columns = words
		case f != nil && len(words) > 0 && len(words[0]) == 16:
			rows++
			addr, err := strconv.ParseUint(words[0], 16, 64)
			if err != nil {
				continue
			}
			if got, want := rowText(f.At(addr), columns), columnsOf(words, columns); !slices.Equal(got, want) {
				if wrong++; wrong < 10 {
					t.Errorf("%#x: %q, want %q", addr, got, want)
				}
			}
		}
	}
	t.Logf("%s: %d functions, %d rows, %d wrong", name, functions, rows, wrong)
	if functions == 0 || rows == 0 {
		t.Error("readelf's output has another form")
	}
}

// columnsOf are the columns of a row of readelf's that count. What is neither in
// its register nor at a place in the stack is "exp". An unknown return address is
// "u".
func columnsOf(words, columns []string) (out []string) {
	words = slices.DeleteFunc(words, func(w string) bool { return w[0] == '(' }) // "r10 (r10)"
	for i, c := range columns[:min(len(columns), len(words))] {
		switch w := words[i]; {
		case c == "CFA":
			out = append(out, w)
		case c != "rbp" && c != "ra":
		case w == "u" && c == "rbp" || w[0] == 'c':
			out = append(out, w)
		default:
			out = append(out, "exp")
		}
	}
	return out
}

// rowText writes a row as readelf does.
func rowText(r *Row, columns []string) []string {
	names := []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
	out := []string{"exp"}
	if r.Base != otherBase {
		out[0] = fmt.Sprintf("%s%+d", names[r.Base], r.Offset)
	}
	for i, x := range [...]Rule{r.Frame, r.Return} {
		switch word := [...]string{"rbp", "ra"}[i]; {
		case !slices.Contains(columns, word):
		case x.Where == Saved:
			out = append(out, fmt.Sprintf("c%+d", x.Offset))
		case x.Where == Same:
			out = append(out, "u")
		default:
			out = append(out, "exp")
		}
	}
	return out
}

// TestDamaged: a file with wrong bytes brings nothing down.
func TestDamaged(t *testing.T) {
	whole, err := os.ReadFile(library(t))
	if err != nil {
		t.Fatal(err)
	}
	x, table, err := open(t, whole)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	hdr, frames := x.Section(".eh_frame_hdr"), x.Section(".eh_frame")
	var starts []uint64
	table.table.Functions(func(s read.Span) bool { starts = append(starts, s.Start); return true })
	const maxRows = 1 << 13
	found := 0
	for range 20 {
		b := bytes.Clone(whole)
		for range 4000 {
			b[frames.Off+random.Uint64N(frames.Size)] = byte(random.Uint32())
		}
		for range 200 {
			b[hdr.Off+12+random.Uint64N(hdr.Size-12)] = byte(random.Uint32())
		}
		_, damaged, err := open(t, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range starts {
			f := damaged.Find(start)
			if f == nil {
				continue
			}
			found++
			if f.Start > start || start >= f.End || len(f.Rows) == 0 || len(f.Rows) > maxRows+1 {
				t.Fatalf("%#x: %+v", start, f)
			}
			f.At(f.End - 1)
		}
	}
	if found == 0 {
		t.Error("the damage is too much to be a test")
	}
}
