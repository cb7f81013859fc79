//go:build linux

package symbolize

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/symbol"
	"ustack/tracefs/capturetest"
)

// variableAt is an address of the program static.c, and the variable that it is in,
// "-" if it is in none.
type variableAt struct {
	want string
	addr uint64
}

// layoutOf runs a program until the test ends and returns the places that it
// prints, and what it has mapped. files are its programs.
func layoutOf(t *testing.T, bin string) (list []variableAt, l filemap.Layout, files map[string]*filemap.File) {
	t.Helper()
	cmd := exec.Command(bin)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "done"; {
		var p variableAt
		if _, err := fmt.Sscanf(lines.Text(), "%s %v", &p.want, &p.addr); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		list = append(list, p)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	l, files = parseLayout(t, text)
	return list, l, files
}

func parseLayout(t *testing.T, text []byte) (l filemap.Layout, files map[string]*filemap.File) {
	t.Helper()
	files = make(map[string]*filemap.File)
	for line := range bytes.Lines(text) {
		m, err := procmap.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		a := filemap.Area{Start: m.Start, End: m.End, Offset: m.Offset, Anonymous: m.Perms&procmap.Shared == 0 && m.Kind.IsData()}
		if m.Kind.HasFile() {
			if files[m.Name] == nil {
				files[m.Name] = fileOf(t, m.Name)
			}
			a.File = files[m.Name]
		}
		l = append(l, a)
	}
	return l, files
}

// buildStatic builds static.c with these flags, and with library a library that
// it is linked to.
func buildStatic(t *testing.T, library bool, flags ...string) (bin, lib string) {
	t.Helper()
	args := append([]string{"testdata/src/static.c", "-O1"}, flags...)
	if library {
		lib = filepath.Join(t.TempDir(), "libstatic.so")
		tool(t, "gcc", "-O1", "-shared", "-fPIC", "-DLIBRARY", "-o", lib, "testdata/src/static.c")
		args = append(args, "-Wl,--no-as-needed", lib, "-Wl,-rpath,"+filepath.Dir(lib))
	}
	return build(t, "gcc", args...), lib
}

// TestVariable: in programs that are linked in all ways, and in a library, the
// variables that a program says it has are found, and nothing else.
func TestVariable(t *testing.T) {
	capturetest.SkipShort(t)
	for _, c := range []struct {
		name    string
		library bool
		flags   []string
	}{
		{"PIE", true, []string{"-fPIE", "-pie"}},
		{"fixed", true, []string{"-fno-pie", "-no-pie"}},
		{"static", false, []string{"-static"}},
		{"static PIE", false, []string{"-static-pie"}},
		{"now", true, []string{"-fPIE", "-pie", "-Wl,-z,now", "-Wl,-z,relro"}},
		{"one segment of code and data", false, []string{"-fno-pie", "-no-pie", "-Wl,-z,noseparate-code"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin, _ := buildStatic(t, c.library, c.flags...)
			places, l, _ := layoutOf(t, bin)
			if want := 17 + 12*one(c.library); len(places) != want {
				t.Fatalf("%d places, want %d", len(places), want)
			}
			s := newSymbols(t, Options{})
			for _, p := range places {
				for _, l := range []filemap.Layout{l, l.Around(p.addr)} {
					got := "-"
					if v := s.Variable(l, p.addr); v != nil {
						got = v.String()
						if v.Source != symbol.Symtab || v.File == nil {
							t.Errorf("%#x: %+v", p.addr, v)
						}
					}
					if got != p.want {
						t.Errorf("%#x: %s, want %s", p.addr, got, p.want)
					}
				}
			}
		})
	}
}

// TestVariableStripped: what is exported stays, if the build ID does.
func TestVariableStripped(t *testing.T) {
	bin, lib := buildStatic(t, true, "-fPIE", "-pie")
	symbols := nmOf(t, "bBdD", lib)
	tool(t, "strip", lib)
	places, l, files := layoutOf(t, bin)
	s := newSymbols(t, Options{})
	other := newSymbols(t, Options{})
	files[lib].BuildID[3]++
	damaged := *files[lib]
	files[lib].BuildID[3]--
	for i := range l {
		l[i].File = files[fileName(l[i].File)]
	}
	wrong := append(filemap.Layout(nil), l...)
	for i := range wrong {
		if wrong[i].File == files[lib] {
			wrong[i].File = &damaged
		}
	}
	for _, p := range places {
		if !strings.HasPrefix(p.want, "lib_") {
			continue
		}
		v := s.Variable(l, p.addr)
		if exported := p.want == "lib_seen"; exported != (v != nil) || exported && (v.Name != "lib_seen" || v.Source != symbol.Dynsym) {
			t.Errorf("%s: %v", p.want, v)
		}
		if v := other.Variable(wrong, p.addr); v != nil {
			t.Errorf("%s: %v, of a file with another build ID", p.want, v)
		}
		// Where it is in the file is known all the same: there nm had it.
		name, _, _ := strings.Cut(p.want, "+")
		i := slices.IndexFunc(symbols, func(s nmSymbol) bool { return s.name == name })
		f, addr, ok := s.Place(l, p.addr)
		if i < 0 || !ok || f != files[lib] || addr < symbols[i].addr || addr >= symbols[i].addr+symbols[i].size {
			t.Errorf("%s: %v, %#x in %v, nm has %+v", p.want, ok, addr, f, symbols)
		}
		if _, _, ok := other.Place(wrong, p.addr); ok {
			t.Errorf("%s: a place in a file with another build ID", p.want)
		}
	}
}

func fileName(f *filemap.File) string {
	if f == nil {
		return ""
	}
	return f.Path
}

// TestVariableNM holds random places in data against nm.
func TestVariableNM(t *testing.T) {
	capturetest.SkipShort(t)
	bin, _ := buildStatic(t, false, "-static-pie")
	places, l, files := layoutOf(t, bin)
	symbols := nmOf(t, "bBdDuvV", bin)
	find := func(name string) uint64 {
		for _, s := range symbols {
			if s.name == name {
				return s.addr
			}
		}
		t.Fatalf("nm has no %s", name)
		return 0
	}
	bias := places[0].addr - find("zero")
	s, random, named := newSymbols(t, Options{}), rand.New(rand.NewPCG(1, 2)), 0
	for range 20000 {
		a := &l[random.IntN(len(l))]
		if a.File != files[bin] && !a.Anonymous {
			continue
		}
		addr := a.Start + random.Uint64N(min(a.End-a.Start, 1<<18))
		v := s.Variable(l, addr)
		if v == nil {
			continue
		}
		named++
		ok := false
		for _, x := range symbols {
			ok = ok || x.name == v.Name && x.addr == addr-bias-v.Offset && v.Offset < x.size
		}
		if !ok {
			t.Errorf("%#x: %v, which nm does not have there", addr-bias, v)
		}
	}
	if named < 1000 {
		t.Errorf("only %d places have names", named)
	}
}

// TestVariableUnproven: a layout in which anything of the file is missing, or
// something else lies in it, proves nothing.
func TestVariableUnproven(t *testing.T) {
	bin, _ := buildStatic(t, false, "-fPIE", "-pie")
	places, whole, files := layoutOf(t, bin)
	s := newSymbols(t, Options{})
	of := func(want string) uint64 {
		for _, p := range places {
			if p.want == want {
				return p.addr
			}
		}
		t.Fatalf("no %s", want)
		return 0
	}
	bss, data := of("wide+0x1ffc0"), of("one")
	if s.Variable(whole, bss) == nil || s.Variable(whole, data) == nil {
		t.Fatal("no names at all")
	}
	changed := 0
	for i := range whole {
		a := &whole[i]
		for what, change := range map[string]func(l filemap.Layout) filemap.Layout{
			"missing": func(l filemap.Layout) filemap.Layout { return append(l[:i], l[i+1:]...) },
			"other":   func(l filemap.Layout) filemap.Layout { l[i].File, l[i].Anonymous = nil, false; return l },
			"moved":   func(l filemap.Layout) filemap.Layout { l[i].Offset += 4096; return l },
			"cut":     func(l filemap.Layout) filemap.Layout { l[i].End -= 4096; return l },
		} {
			if a.File != files[bin] && (!a.Anonymous || a.Start > bss || what == "moved" || what == "cut" && bss < a.End-4096) {
				continue
			}
			changed++
			l := change(append(filemap.Layout(nil), whole...))
			if v := s.Variable(l, bss); v != nil {
				t.Errorf("%s %#x-%#x: %v", what, a.Start, a.End, v)
			}
		}
	}
	if changed < 12 {
		t.Errorf("%d changes", changed)
	}
}
