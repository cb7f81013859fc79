package symbolize

import (
	"debug/elf"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// specimen is a program of labels.
type specimen struct {
	t      *testing.T
	file   *filemap.File
	labels map[string]uint64 // offsets in the file
}

func newSpecimen(t *testing.T, name string) specimen {
	t.Helper()
	s := specimen{t, fileOf(t, name), make(map[string]uint64)}
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, sym := range symbols {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && sym.Value >= p.Vaddr && sym.Value < p.Vaddr+p.Filesz {
				s.labels[sym.Name] = sym.Value - p.Vaddr + p.Off
			}
		}
	}
	return s
}

func (s *specimen) at(label string, ran bool) symbol.Place {
	s.t.Helper()
	off, ok := s.labels[label]
	if !ok {
		s.t.Fatalf("no label %s in %s", label, s.file.Path)
	}
	return symbol.Place{File: s.file, Offset: off, Ran: ran}
}

// skippedPrograms builds the program and its library.
func skippedPrograms(t *testing.T) (program, library string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the source is in the assembly of x86-64")
	}
	dir := t.TempDir()
	program, library = filepath.Join(dir, "skipped"), filepath.Join(dir, "libskipped.so")
	for _, args := range [][]string{
		{"-shared", "-o", library, "testdata/src/skipped-lib.s"},
		{"-o", program, "testdata/src/skipped.s", library},
	} {
		cmd := exec.Command(need(t, "gcc"), append([]string{"-nostdlib", "-Wl,--build-id,--eh-frame-hdr"}, args...)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
		}
	}
	return program, library
}

// TestSkipped: what is proven has a name, and nothing else has.
func TestSkipped(t *testing.T) {
	programName, libraryName := skippedPrograms(t)
	program, library := newSpecimen(t, programName), newSpecimen(t, libraryName)
	s := newSymbols(t, Options{})
	inside := library.at("ip_inner", true)
	for _, c := range []struct {
		inner symbol.Place
		outer string
		want  string
	}{
		{inside, "r_plain", "plain"},
		{inside, "r_by_jump", "by_jump"},
		{inside, "r_no_plt", "no_plt"},
		{inside, "r_ends_in_jump", "ends_in_jump"},
		{inside, "r_jump_table", "jump_table"},
		{inside, "r_comes_back", "comes_back"},
		{library.at("r_calls_back", false), "r_calls_qsort", "calls_qsort"},

		{inside, "r_framed_end", ""},
		{inside, "r_framed_far_end", ""},
		{inside, "r_framed_end_at_last", ""},
		{inside, "r_frees", ""},
		{inside, "r_unknown_end", ""},
		{inside, "r_frameless", ""},
		{inside, "r_elsewhere", ""},
		{inside, "r_without_rbp", ""},
		{inside, "r_by_pointer", ""},
		{inside, "r_middle", ""},
		{inside, "r_plt", ""},
		{inside, "r_indirect", ""},
		{library.at("r_without_rbp", false), "r_without_rbp", ""}, // rbp was used
		{library.at("wait_framed", true), "r_plain", ""},          // never called
		{program.at("plain", true), "r_plain", ""},                // nothing is missing
		{program.at("r_plain", false), "r_plain", ""},
	} {
		outer := program.at(c.outer, false)
		got := ""
		if f := s.Skipped(c.inner, outer); f != nil {
			got = f.Name.Function
			if f.File != program.file || f.Offset != program.labels[got] || !f.Name.Inferred || f.Name.Reason != symbol.NoReason || f.Name.Line != 0 {
				t.Errorf("%s: %+v %+v", c.outer, f, f.Name)
			}
		}
		if got != c.want {
			t.Errorf("%+v, %s: %q, want %q", c.inner, c.outer, got, c.want)
		}
	}
}

// TestSkippedOff: nothing is inferred with NoInfer, nor of a file that is
// another one, nor where no file is.
func TestSkippedOff(t *testing.T) {
	programName, libraryName := skippedPrograms(t)
	program, library := newSpecimen(t, programName), newSpecimen(t, libraryName)
	inner, outer := library.at("ip_inner", true), program.at("r_plain", false)
	if newSymbols(t, Options{NoInfer: true}).Skipped(inner, outer) != nil {
		t.Error("inferred with NoInfer")
	}
	s := newSymbols(t, Options{})
	other := *library.file
	other.BuildID[0]++
	for _, c := range []struct{ inner, outer symbol.Place }{
		{symbol.Place{File: &other, Offset: inner.Offset, Ran: true}, outer},
		{symbol.Place{Offset: 1, Ran: true}, outer},
		{inner, symbol.Place{Offset: 1}},
		{inner, symbol.Place{File: outer.File, Offset: outer.Offset, Ran: true}},
		{inner, symbol.Place{File: outer.File, Offset: 0}},
		{inner, symbol.Place{File: outer.File, Offset: 1 << 63}},
		{symbol.Place{File: inner.File, Offset: 1 << 63, Ran: true}, outer},
	} {
		if f := s.Skipped(c.inner, c.outer); f != nil {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// TestSkippedDamaged: files with wrong bytes bring nothing down.
func TestSkippedDamaged(t *testing.T) {
	programName, libraryName := skippedPrograms(t)
	program, library := newSpecimen(t, programName), newSpecimen(t, libraryName)
	whole := make(map[string][]byte)
	for _, name := range []string{programName, libraryName} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = b
	}
	var outer []string
	for label := range program.labels {
		if label[:min(2, len(label))] == "r_" {
			outer = append(outer, label)
		}
	}
	slices.Sort(outer)
	random := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	found, none, started := 0, 0, 0
	for range 300 {
		var files []*filemap.File
		for i, name := range []string{programName, libraryName} {
			b := slices.Clone(whole[name])
			for range random.IntN(64) {
				b[64+random.IntN(len(b)-64)] = byte(random.Uint32())
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o777); err != nil {
				t.Fatal(err)
			}
			id := []*filemap.File{program.file, library.file}[i].BuildID
			files = append(files, &filemap.File{Path: "/" + filepath.Base(name), BuildID: id})
		}
		s, err := New(Options{Sysroot: dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, label := range outer {
			if s.Skipped(symbol.Place{File: files[1], Offset: library.labels["ip_inner"], Ran: true}, symbol.Place{File: files[0], Offset: program.labels[label]}) != nil {
				found++
			} else {
				none++
			}
		}
		outer := symbol.Place{File: files[1], Offset: library.labels["r_begins_thread"], Calls: s.Begun(files[0], program.labels["plain"])}
		if s.Skipped(symbol.Place{File: files[1], Offset: library.labels["ip_inner"], Ran: true}, outer) != nil {
			started++
		}
		s.Close()
	}
	t.Logf("%d found, %d not; %d that began a thread", found, none, started)
	if found == 0 || none == 0 || started == 0 || started == 300 {
		t.Error("the damage is too little, or too much, to be a test")
	}
}

// TestSkippedARM64: on arm64, functions without a frame are the ones that call none.
// The file is made of testdata/src/skipped-arm64.s.
func TestSkippedARM64(t *testing.T) {
	name, err := filepath.Abs("testdata/skipped-arm64.elf")
	if err != nil {
		t.Fatal(err)
	}
	program := newSpecimen(t, name)
	s := newSymbols(t, Options{})
	for outer, want := range map[string]string{
		"r_plain": "plain", "r_far": "far", "r_ends_in_jump": "ends_in_jump", "r_jump_table": "jump_table",
		"r_framed_end": "", "r_unknown_end": "", "r_by_uses": "", "r_by_pointer": "", "r_no_frame": "", "r_leaf": "",
	} {
		got := ""
		if f := s.Skipped(program.at("ip_leaf", true), program.at(outer, false)); f != nil {
			got = f.Name.Function
		}
		if got != want {
			t.Errorf("%s: %q, want %q", outer, got, want)
		}
	}
}
