package symbolize

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/imagetest"
)

// TestWrittenInSecond: on a file system that stores whole seconds, no name is one of what a file
// was overwritten with in the second in which it was opened.
func TestWrittenInSecond(t *testing.T) {
	built := build(t, "gcc", "-O2", "testdata/src/work.c")
	at, f := workAt(t, built), fileOf(t, built)
	right, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(right, []byte("work\x00"), []byte("jerk\x00"))
	other = bytes.ReplaceAll(other, trimmed(f), make([]byte, len(trimmed(f))))
	write := func(path string, b []byte) time.Time {
		t.Helper()
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	f.Path = filepath.Join(imagetest.Seconds(t), "work")
	for range 20 {
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		s := newSymbols(t, Options{NoLines: true})
		first := write(f.Path, right)
		if n := s.Name(f, at+4, true); n.Function != "work" {
			t.Errorf("%+v\n%+v", n, s.Tries(f))
		}
		second := write(f.Path, other)
		write(f.Path+".new", right)
		if err := os.Rename(f.Path+".new", f.Path); err != nil {
			t.Fatal(err)
		}
		if n := s.Name(f, at+5, true); n.Function != "work" {
			t.Errorf("overwritten: %+v\n%+v", n, s.Tries(f))
		}
		if first.Equal(second) {
			return
		}
	}
	t.Skip("no two writes in one second")
}
