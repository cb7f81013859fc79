package symbolize

import (
	"bytes"
	"os"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// TestWritten: a file that is overwritten in place after its build ID was read gives no more
// names, and the one that comes to its path does, if it has the ID.
func TestWritten(t *testing.T) {
	path := build(t, "gcc", "-O2", "testdata/src/work.c")
	at, f := workAt(t, path), fileOf(t, path)
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(right, []byte("work\x00"), []byte("jerk\x00"))
	other = bytes.ReplaceAll(other, trimmed(f), make([]byte, len(trimmed(f))))
	s := newSymbols(t, Options{NoLines: true})
	named := func(what string, offset uint64, function string, reason symbol.Reason) {
		t.Helper()
		if n := s.Name(f, offset, true); n.Function != function || n.Reason != reason {
			t.Errorf("%s: %+v, want %q, %v\n%+v", what, n, function, reason, s.Tries(f))
		}
	}
	write := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	replace := func() {
		t.Helper()
		write(path+".new", right)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	named("as it is", at+4, "work", 0)
	write(path, other)
	replace()
	named("overwritten and replaced", at+5, "work", 0)
	write(path, other)
	write(path, right)
	named("overwritten, and back", at+6, "work", 0)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(path, other)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	replace()
	named("overwritten, with the time set back, and replaced", at+9, "work", 0)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	named("removed", at+7, "work", 0)
	replace()
	write(path, other)
	named("removed still", at+8, "work", 0)
	s = newSymbols(t, Options{NoLines: true})
	named("another one", at+4, "", symbol.IDMismatch)
	write(path, right)
	s = newSymbols(t, Options{NoLines: true})
	named("as it is again", at+4, "work", 0)
	write(path, other)
	named("overwritten", at+5, "", symbol.IDMismatch)
}

// trimmed is the build ID of a file as the linker wrote it.
func trimmed(f *filemap.File) []byte { return bytes.TrimRight(f.BuildID[:], "\x00") }
