package procmap

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"ustack/filemap/openfile"
)

// TestOpenExe: the very program of a process.
func TestOpenExe(t *testing.T) {
	files := openfile.NewOpener(0)
	defer files.Close()
	r := needText(t, Options{})
	f, err := r.OpenExe(files, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes (%v), want the %d of %s", len(got), err, len(want), name)
	}
	if _, err := r.OpenExe(files, 1<<30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that cannot be: %v", err)
	}
}
