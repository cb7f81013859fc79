package symbolize

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
)

// benchCopies of a unit with so many functions make a program with about
// 100 MB of debug information.
const (
	benchCopies    = 46
	benchFunctions = 400
)

// benchUnit is the source of a unit full of inlined functions.
func benchUnit() []byte {
	var b bytes.Buffer
	b.WriteString("static inline __attribute__((always_inline)) int leaf(volatile int *p, int x) { int y = x * 2; *p = y; return *p + y; }\n")
	for i := range benchFunctions {
		fmt.Fprintf(&b, "struct s%d { int a_%d; long b_%d; struct s%d *next_%d; };\n", i, i, i, i, i)
		fmt.Fprintf(&b, "int function_%d(volatile int *p, struct s%d *q, int n) {\n", i, i)
		for k := range 12 {
			fmt.Fprintf(&b, "  { int local_%d = leaf(p, n + %d); q->a_%d += local_%d; if (local_%d > n) { int deep_%d = leaf(p, local_%d); q->b_%d -= deep_%d; } }\n", k, k, i, k, k, k, k, i, k)
		}
		fmt.Fprintf(&b, "  return q->a_%d;\n}\n", i)
	}
	return b.Bytes()
}

// benchBuild compiles the unit once and links copies of it, each with a prefix
// to its symbols.
func benchBuild(dir string) (string, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(in("unit.c"), benchUnit(), 0o666), os.WriteFile(in("main.c"), []byte("int main(void) { return 0; }\n"), 0o666))
	if err != nil {
		return "", err
	}
	link := []string{in("main.c"), "-o", in("program")}
	steps := [][]string{{"gcc", "-g", "-O0", "-c", in("unit.c"), "-o", in("unit.o")}}
	for i := range benchCopies {
		object := in(fmt.Sprintf("copy%d.o", i))
		steps = append(steps, []string{"objcopy", fmt.Sprintf("--prefix-symbols=copy%d_", i), in("unit.o"), object})
		link = append(link, object)
	}
	for _, step := range append(steps, append([]string{"gcc"}, link...)) {
		if text, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w: %s", step, err, text)
		}
	}
	return in("program"), nil
}

// benchFile is the large program, or the one that USTACK_BENCH_ELF names.
func benchFile(b *testing.B) *filemap.File {
	name := os.Getenv("USTACK_BENCH_ELF")
	if name == "" {
		var err error
		if name, err = benchBuild(b.TempDir()); err != nil {
			b.Skipf("no large program: %v", err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	id, err := elfid.Read(f)
	if err != nil {
		b.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s has %d MB", name, info.Size()>>20)
	return &filemap.File{Path: name, BuildID: id.Padded(), HasID: true}
}

// benchOffsets are places in its code.
func benchOffsets(b *testing.B, f *filemap.File) []uint64 {
	s, err := New(Options{NoLines: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var list []uint64
	for _, seg := range s.source(f).bin.image.Segments {
		for off := seg.Off + 4096; seg.Exec && off < seg.Off+seg.FileSize; off += 997 {
			list = append(list, off)
		}
	}
	return list
}

// BenchmarkCold opens the file and finds one name with its line.
func BenchmarkCold(b *testing.B) {
	f := benchFile(b)
	list := benchOffsets(b, f)
	b.ReportAllocs()
	for b.Loop() {
		s, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		if n := s.Name(f, list[len(list)/2], true); n.Line == 0 {
			b.Fatalf("%+v", n)
		}
		s.Close()
	}
}

// BenchmarkNew finds names at places that were not asked for before.
func BenchmarkNew(b *testing.B) {
	f := benchFile(b)
	list := benchOffsets(b, f)
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	n := 0
	for b.Loop() {
		s.Name(f, list[n%len(list)]+uint64(n/len(list)), true)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "names/s")
}

// BenchmarkWarm finds names that are known.
func BenchmarkWarm(b *testing.B) {
	f := benchFile(b)
	list := benchOffsets(b, f)
	list = list[:min(len(list), 4096)]
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, off := range list {
		s.Name(f, off, true)
	}
	n := 0
	for b.Loop() {
		s.Name(f, list[n%len(list)], true)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "names/s")
}

// BenchmarkColdLibrary is BenchmarkCold by the standard library, without inlined
// functions.
func BenchmarkColdLibrary(b *testing.B) {
	f := benchFile(b)
	list := benchOffsets(b, f)
	b.ReportAllocs()
	for b.Loop() {
		d, x, err := openDWARF(f.Path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := libraryLine(d, vaddr(x, list[len(list)/2])); err != nil {
			b.Fatal(err)
		}
		x.Close()
	}
}

// BenchmarkNewLibrary is BenchmarkNew by the standard library.
func BenchmarkNewLibrary(b *testing.B) {
	f := benchFile(b)
	list := benchOffsets(b, f)
	d, x, err := openDWARF(f.Path)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	n := 0
	for b.Loop() {
		// Some places are between functions: an error.
		_, _ = libraryLine(d, vaddr(x, list[n%len(list)]+uint64(n/len(list))))
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "names/s")
}

func openDWARF(name string) (*dwarf.Data, *elf.File, error) {
	x, err := elf.Open(name)
	if err != nil {
		return nil, nil, err
	}
	d, err := x.DWARF()
	return d, x, err
}

func vaddr(x *elf.File, off uint64) uint64 {
	for _, p := range x.Progs {
		if p.Type == elf.PT_LOAD && off >= p.Off && off < p.Off+p.Filesz {
			return off - p.Off + p.Vaddr
		}
	}
	return 0
}

func libraryLine(d *dwarf.Data, addr uint64) (line int, err error) {
	unit, err := d.Reader().SeekPC(addr)
	if err != nil {
		return 0, err
	}
	lines, err := d.LineReader(unit)
	if err != nil {
		return 0, err
	}
	var e dwarf.LineEntry
	err = lines.SeekPC(addr, &e)
	return e.Line, err
}
