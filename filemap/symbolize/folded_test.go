package symbolize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// foldedUnit is a unit with a function whose code is that of NAME in other units, and
// with two others that have the same code.
const foldedUnit = `void probe(int);
static inline __attribute__((always_inline)) void NAME_inner(int x) { if (x > 5) probe(x); }
int NAME(int x)
{
	NAME_inner(x);
	probe(1);
	return x + 1;
}
static inline __attribute__((always_inline)) void NAME_left(int x) { if (x > 6) probe(x); }
static inline __attribute__((always_inline)) void NAME_right(int x) { if (x > 6) probe(x); }
int NAME_1(int x)
{
	NAME_left(x);
	probe(2);
	return x + 3;
}
int NAME_2(int x)
{
	NAME_right(x);
	probe(2);
	return x + 3;
}
`

// Of functions that a linker has folded, the line and what is inlined are those of the one
// that the symbol names, or unknown.
func TestFolded(t *testing.T) {
	need(t, "gold")
	dir := t.TempDir()
	main := "void probe(int x) { __asm__ volatile(\"\" :: \"r\"(x)); }\nint main(void) { return 0"
	args := []string{"-O2", "-g", "-ffunction-sections", "-fno-ipa-icf", "-fuse-ld=gold", "-Wl,--icf=all,--build-id"}
	decl := ""
	for _, name := range []string{"first", "second", "third"} {
		unit := filepath.Join(dir, name+".c")
		if err := os.WriteFile(unit, []byte(strings.ReplaceAll(foldedUnit, "NAME", name)), 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(args, unit)
		for _, f := range []string{name, name + "_1", name + "_2"} {
			decl += "int " + f + "(int);\n"
			main += " + " + f + "(9)"
		}
	}
	unit := filepath.Join(dir, "main.c")
	if err := os.WriteFile(unit, []byte(decl+main+"; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	name := build(t, "gcc", append(args, unit)...)
	s, p := newSymbols(t, Options{}), newSpecimen(t, name)
	f := p.file
	counts := make(map[string]int)
	for offset := p.at("first", true).Offset; ; offset++ {
		n := s.Name(f, offset, true)
		if n.Function != "first" {
			break
		}
		counts["whole"]++
		if filepath.Base(n.File) != "first.c" {
			t.Errorf("%#x: first is in %s:%d", offset, n.File, n.Line)
		}
		for _, in := range n.Inlined {
			counts["inlined"]++
			if in.Function != "first_inner" || filepath.Base(in.File) != "first.c" {
				t.Errorf("%#x: first has %+v", offset, in)
			}
		}
	}
	for offset := p.at("first_1", true).Offset; ; offset++ {
		n := s.Name(f, offset, true)
		if n.Function != "first_1" {
			break
		}
		counts["pair"]++
		if len(n.Inlined) == 0 && (n.File != "" || n.Line != 0) {
			t.Errorf("%#x: first_1 is in %s:%d, which may be first_2's", offset, n.File, n.Line)
		}
		for _, in := range n.Inlined {
			counts["pair inlined"]++
			if in.Function != "first_left" || in.File != "" {
				t.Errorf("%#x: first_1 has %+v", offset, in)
			}
		}
	}
	for _, what := range []string{"whole", "inlined", "pair", "pair inlined"} {
		if counts[what] == 0 {
			t.Errorf("nothing is looked up: %s of %v", what, counts)
		}
	}
}
