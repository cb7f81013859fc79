package symbolize

import (
	"errors"
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

// TestReplaceable: once root has removed a program from a directory like /tmp, another user can
// put one there that has its build ID and other functions.
func TestReplaceable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other = 65534
	const group = os.ModeSetgid // of other: with members besides root
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at, id := workAt(t, full), fileOf(t, full).BuildID
	guarded, err := os.MkdirTemp("/run", "ustack-test-") // only root can write there
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(guarded)
	if err := os.Chmod(guarded, 0o755); err != nil {
		t.Fatal(err)
	}
	free := filepath.Join(guarded, "free")
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		what  string
		path  string
		owner int
		mode  os.FileMode
		since time.Time
		named bool
	}{
		{"of another user, where all users can put files", free + "/program", other, 0o755, time.Time{}, false},
		{"in a directory there", free + "/of/program", other, 0o755, time.Time{}, false},
		{"of root, in such a directory", free + "/program", 0, 0o755, time.Time{}, true},
		{"for all to write", free + "/program", 0, 0o777, time.Time{}, false},
		{"for all to write, in a guarded directory", guarded + "/program", 0, 0o777, time.Time{}, false},
		{"of another user, in a guarded directory", guarded + "/of/program", other, 0o755, time.Time{}, true},
		{"for a group to write", free + "/program", 0, 0o775 | group, time.Time{}, false},
		{"for a group to write, in a guarded directory", guarded + "/program", 0, 0o775 | group, time.Time{}, false},
		{"for a group to write, as it was before the trace", guarded + "/program", 0, 0o775 | group, later, true},
		{"of another user, where a group can put files", guarded + "/group/program", other, 0o755, time.Time{}, false},
		{"of root, in such a directory of a group", guarded + "/group/program", 0, 0o755, time.Time{}, true},
		{"as it was before the trace", free + "/of/program", other, 0o755, later, true},
		{"changed since", free + "/of/program", other, 0o755, time.Now(), false},
		{"by a link", guarded + "/link/program", other, 0o755, later, false},
		{"had been deleted", free + "/program (deleted)", other, 0o755, later, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			if err := os.MkdirAll(free+"/of", 0o755); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(free)
			if err := os.Chmod(free, 0o777|os.ModeSticky); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(guarded+"/of", 0o755); err != nil {
				t.Fatal(err)
			}
			_ = os.Symlink("of", guarded+"/link")
			if err := errors.Join(os.MkdirAll(guarded+"/group", 0o755), os.Chown(guarded+"/group", 0, other), os.Chmod(guarded+"/group", 0o775)); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(c.path, deleted)
			tool(t, "cp", full, name)
			gid := c.owner
			if c.mode&group != 0 {
				gid = other
			}
			if err := os.Chown(name, c.owner, gid); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(name, c.mode); err != nil {
				t.Fatal(err)
			}
			f := &filemap.File{Path: c.path, BuildID: id}
			s := newSymbols(t, Options{Since: begin(c.since)})
			n := s.Name(f, at+4, true)
			refused := slices.ContainsFunc(s.Tries(f), func(try symbol.Try) bool {
				return try.Path == name && strings.HasPrefix(try.Result, "another user can have put it there")
			})
			if named := n.Function == "work"; named != c.named || refused == named || !named && n.Reason != symbol.Replaceable {
				t.Errorf("%+v\n%+v", n, s.Tries(f))
			}
		})
	}
	t.Run("below --sysroot", func(t *testing.T) {
		dir := t.TempDir()
		name := filepath.Join(dir, "program")
		tool(t, "cp", full, name)
		if err := os.Chown(name, other, other); err != nil {
			t.Fatal(err)
		}
		s := newSymbols(t, Options{Sysroot: dir})
		if n := s.Name(&filemap.File{Path: "/program", BuildID: id}, at+4, true); n.Function != "work" {
			t.Errorf("%+v", n)
		}
	})
}

// begin is the Begin of a time, nil of none.
func begin(t time.Time) *openfile.Begin {
	if t.IsZero() {
		return nil
	}
	return openfile.BeginAt(t)
}
