package symbolize

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/filemap"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
)

// TestPlanted: in a directory like /tmp any user can put a file where .gnu_debuglink
// points, and its checksum is easily made to match. It has to be of root, or of the owner of
// the program.
func TestPlanted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other = 65534
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at, id := workAt(t, full), fileOf(t, full).BuildID
	bare, debug := full+".bare", full+".debug"
	for _, c := range []struct {
		what           string
		program, debug int // owners
		to             string
		named          bool // the directory, by the user
		source         symbol.Source
	}{
		{"of another user", 0, other, debug, false, symbol.NoSource},
		{"of another user, in .debug", 0, other, filepath.Join(filepath.Dir(full), ".debug", filepath.Base(debug)), false, symbol.NoSource},
		{"of two users", other, other - 1, debug, false, symbol.NoSource},
		{"of the program's owner", other, other, debug, false, symbol.DebugFile},
		{"of root", other, 0, debug, false, symbol.DebugFile},
		{"in a directory that the user has named", 0, other, filepath.Join(t.TempDir(), filepath.Base(debug)), true, symbol.DebugFile},
	} {
		t.Run(c.what, func(t *testing.T) {
			tool(t, "objcopy", "--only-keep-debug", full, debug)
			tool(t, "strip", "-o", bare, full)
			tool(t, "objcopy", "--add-gnu-debuglink="+debug, bare)
			if c.to != debug {
				move(t, debug, c.to)
			}
			defer os.Remove(c.to)
			for name, uid := range map[string]int{bare: c.program, c.to: c.debug} {
				if err := os.Chown(name, uid, uid); err != nil {
					t.Fatal(err)
				}
			}
			opt := Options{Since: openfile.BeginAt(time.Now().Add(time.Hour))} // so the program has not changed since then
			if c.named {
				opt.DebugDirs = []string{filepath.Dir(c.to)}
			}
			f := &filemap.File{Path: bare, BuildID: id}
			s := newSymbols(t, opt)
			if n := s.Name(f, at+4, true); n.Source != c.source {
				t.Errorf("%+v\n%+v", n, s.Tries(f))
			}
			refused := slices.ContainsFunc(s.Tries(f), func(try symbol.Try) bool {
				return try.Path == c.to && strings.HasPrefix(try.Result, "another user's")
			})
			if refused != (c.source == symbol.NoSource) {
				t.Errorf("%+v", s.Tries(f))
			}
		})
	}
}

// TestPlantedAlternative: the same of the file of .gnu_debugaltlink, which has to have a build
// ID that everybody can read.
func TestPlantedAlternative(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other = 65534
	program := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at := workAt(t, program)
	id := fileOf(t, program).BuildID
	alt := filepath.Join(filepath.Dir(program), "common.debug")
	tool(t, "objcopy", "--only-keep-debug", program, alt)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(link, append([]byte("common.debug\x00"), id[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "objcopy", "--add-section=.gnu_debugaltlink="+link, program)
	for _, c := range []struct {
		owner  int
		result string
	}{{0, "found, same build ID"}, {other, "another user's: not used"}} {
		if err := os.Chown(alt, c.owner, c.owner); err != nil {
			t.Fatal(err)
		}
		f := &filemap.File{Path: program, BuildID: id}
		s := newSymbols(t, Options{})
		if n := s.Name(f, at+4, true); n.Function != "work" {
			t.Errorf("%+v\n%+v", n, s.Tries(f))
		}
		if !slices.Contains(s.Tries(f), symbol.Try{Path: alt, Result: c.result}) {
			t.Errorf("of user %d: %+v", c.owner, s.Tries(f))
		}
	}
}
