package symbolize

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestWrittenInSecond: on a file system that stores whole seconds, no name is one of what a file
// was overwritten with in the second in which it was opened.
func TestWrittenInSecond(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount images")
	}
	built := build(t, "gcc", "-O2", "testdata/src/work.c")
	at, f := workAt(t, built), fileOf(t, built)
	right, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(right, []byte("work\x00"), []byte("jerk\x00"))
	other = bytes.ReplaceAll(other, trimmed(f), make([]byte, len(trimmed(f))))
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
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
	write(image, make([]byte, 8<<20))
	tool(t, "mke2fs", "-q", "-t", "ext4", "-I", "128", "-O", "^has_journal", image)
	if text, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("images cannot be mounted here, as in a container: %v: %s", err, text)
	}
	t.Cleanup(func() { tool(t, "umount", "-l", dir) })
	f.Path = filepath.Join(dir, "work")
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
