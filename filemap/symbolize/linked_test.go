package symbolize

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// relink moves all that a file has in memory by some bytes, as prelink does: its segments
// and sections, and the symbols that it exports. The build ID stays.
func relink(t *testing.T, name string, by uint64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	le := binary.LittleEndian
	add := func(off uint64) { le.PutUint64(b[off:], le.Uint64(b[off:])+by) }
	for i := range f.Progs {
		h := le.Uint64(b[32:]) + uint64(i)*56
		add(h + 16)
		add(h + 24)
	}
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			add(le.Uint64(b[40:]) + uint64(i)*64 + 16)
		}
		for off := s.Offset; s.Type == elf.SHT_DYNSYM && off < s.Offset+s.Size; off += 24 {
			if le.Uint64(b[off+8:]) != 0 {
				add(off + 8)
			}
		}
	}
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestMovedCode: a separate file, and a packed symbol table, of the same build ID or with
// the right checksum, name nothing if the code has been moved since they were made.
func TestMovedCode(t *testing.T) {
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at, id := workAt(t, full), fileOf(t, full).BuildID
	need(t, "xz")
	debug, bare, linked, mini := full+".debug", full+".bare", full+".linked", full+".mini"
	dir := t.TempDir()
	byID := filepath.Join(dir, ".build-id", id.Hex()[:2], id.Hex()[2:]+".debug")
	tool(t, "objcopy", "--only-keep-debug", full, debug)
	tool(t, "strip", "-o", bare, full)
	tool(t, "objcopy", "--add-gnu-debuglink="+debug, bare, linked)
	tool(t, "objcopy", "-S", "--keep-symbol=work", debug, debug+".few")
	tool(t, "xz", "-k", debug+".few")
	tool(t, "objcopy", "--add-section=.gnu_debugdata="+debug+".few.xz", bare, mini)
	for _, c := range []struct {
		what, file, debug string
		source            symbol.Source
	}{
		{"by build ID", bare, byID, symbol.DebugFile}, {"by checksum", linked, filepath.Join(dir, filepath.Base(debug)), symbol.DebugFile}, {"packed", mini, "", symbol.DebugData},
	} {
		if c.debug != "" {
			b, err := os.ReadFile(debug)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(c.debug), 0o777)
			}
			if err == nil {
				err = os.WriteFile(c.debug, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f := &filemap.File{Path: c.file, BuildID: id}
		if n := newSymbols(t, Options{DebugDirs: []string{dir}}).Name(f, at+4, true); n.Function != "work" || n.Source != c.source {
			t.Errorf("%s: %+v", c.what, n)
		}
		relink(t, c.file, 4) // so that the next bytes of work have its name
		s := newSymbols(t, Options{DebugDirs: []string{dir}})
		if n := s.Name(f, at+4, true); n.Reason != symbol.Stripped || n.Line != 0 {
			t.Errorf("%s, moved: %+v", c.what, n)
		}
		if tries := s.Tries(f); !slices.ContainsFunc(tries, func(try symbol.Try) bool { return strings.HasSuffix(try.Result, moved) }) {
			t.Errorf("%s: %+v", c.what, tries)
		}
		if c.debug != "" {
			if err := os.Remove(c.debug); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNoCode: a file of debug information where the program should be is passed by.
func TestNoCode(t *testing.T) {
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at, id := workAt(t, full), fileOf(t, full).BuildID
	tool(t, "objcopy", "--only-keep-debug", full, full+".debug")
	f := &filemap.File{Path: full + ".debug", BuildID: id}
	if n := newSymbols(t, Options{}).Name(f, at, true); n.Reason != symbol.NoFile {
		t.Errorf("%+v", n)
	}
	fetch := func(string, string) (string, error) { return full, nil }
	if n := newSymbols(t, Options{Fetch: fetch}).Name(f, at, true); n.Function != "work" {
		t.Errorf("fetched: %+v", n)
	}
}

// TestLinkedHole: no file is read for its checksum that is longer than any with debug
// information, which a file with a hole can be.
func TestLinkedHole(t *testing.T) {
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	debug, bare := full+".debug", full+".bare"
	tool(t, "objcopy", "--only-keep-debug", full, debug)
	tool(t, "strip", "-o", bare, full)
	tool(t, "objcopy", "--add-gnu-debuglink="+debug, bare)
	if err := os.Truncate(debug, 5<<30); err != nil {
		t.Skip("no file of 5 GiB with a hole here: ", err)
	}
	s := newSymbols(t, Options{})
	tries := s.Tries(&filemap.File{Path: bare, BuildID: fileOf(t, full).BuildID})
	if !slices.ContainsFunc(tries, func(try symbol.Try) bool { return strings.Contains(try.Result, "too many for a checksum") }) || s.find.summed != 0 {
		t.Errorf("%+v", tries)
	}
}
