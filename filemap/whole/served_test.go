package whole

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/fusetest"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// TestOpenServed: no tables are read of a file of a server that has another one there by now, though the
// kernel has kept the page with the build ID.
func TestOpenServed(t *testing.T) {
	name, id := systemFile(t)
	right, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s := fusetest.StartKept(t, right)
	files := openfile.NewOpener(0)
	defer files.Close()
	open := func() error {
		at, err := files.Named(s.Path)
		if err != nil {
			return err
		}
		b, err := binary(at)
		if err == nil {
			b, err = withID(b, &space.File{Name: s.Path, BuildID: id, Kind: procmap.File})
		}
		if err == nil {
			b.Close()
		}
		return err
	}
	f, err := os.Open(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Error(err)
	}
	s.Exchange(bytes.ReplaceAll(right, rawID(id), make([]byte, id.Len())))
	if err := open(); !errors.Is(err, errOther) {
		t.Errorf("the server has another file: %v", err)
	}
}

// rawID is a build ID as the linker wrote it.
func rawID(id elfid.ID) []byte {
	raw := id.Padded()
	return raw[:id.Len()]
}
