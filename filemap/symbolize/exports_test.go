//go:build !device

package symbolize

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// TestOtherFunctions: a separate file of another build, with the same sections and a build ID
// that was set by hand, names nothing where it has exported functions in other places; what
// it does not have is no difference.
func TestOtherFunctions(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	const id = "00aabbccddeeff00112233445566778899aabbcc"
	library := func(name, source string) string {
		c, lib := filepath.Join(dir, name+".c"), filepath.Join(dir, name+".so")
		if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		tool(t, "gcc", "-g", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC", "-Wl,--build-id=0x"+id, "-o", lib, c)
		return lib
	}
	const first, second = "int first(int a) { return a * 3; }\n", "int second(int a) { return a * 5; }\n"
	ours := library("ours", first+second)
	at, want := functionAt(t, ours, "second"), fileOf(t, ours).BuildID
	debug := filepath.Join(elsewhere, ".build-id", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o777); err != nil {
		t.Fatal(err)
	}
	bare := ours + ".bare"
	tool(t, "strip", "-o", bare, ours)
	f := &filemap.File{Path: bare, BuildID: want}
	for _, c := range []struct {
		what, of string
		used     bool
		function string
	}{
		{"its own", ours, true, "second"},
		{"of another build", library("others", second+first), false, "second"},
		{"with a name that the file does not export", library("renamed", first+"int __private_second(int a) { return a * 5; }\n"), true, "__private_second"},
	} {
		tool(t, "objcopy", "--only-keep-debug", c.of, debug)
		s := newSymbols(t, Options{DebugDirs: []string{elsewhere}})
		n := s.Name(f, at, true)
		if n.Function != c.function || c.used != (n.Source == symbol.DebugFile) {
			t.Errorf("%s: %+v", c.what, n)
		}
		if tries := s.Tries(f); c.used == slices.ContainsFunc(tries, func(try symbol.Try) bool { return strings.HasSuffix(try.Result, moved) }) {
			t.Errorf("%s: %+v", c.what, tries)
		}
	}
}
