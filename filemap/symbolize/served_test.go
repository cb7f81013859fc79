package symbolize

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/fusetest"
	"ustack/filemap/symbol"
)

// TestServed: a file of a server has no names of another one that the server has there by now, though
// the kernel has kept the page with the build ID.
func TestServed(t *testing.T) {
	path := build(t, "gcc", "-O2", "testdata/src/work.c")
	at, f := workAt(t, path), fileOf(t, path)
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(right, []byte("work\x00"), []byte("jerk\x00"))
	other = bytes.ReplaceAll(other, trimmed(f), make([]byte, len(trimmed(f))))
	f.Path = "/" + fusetest.Name

	t.Run("exchanged before it is opened", func(t *testing.T) {
		s := fusetest.StartKept(t, right)
		keepFirst(t, s.Path)
		s.Exchange(other)
		names := newSymbols(t, Options{Sysroot: s.Dir, NoLines: true})
		if n := names.Name(f, at+4, true); n.Function != "" || n.Reason != symbol.Unreadable {
			t.Errorf("%+v\n%+v", n, names.Tries(f))
		}
	})
	t.Run("exchanged after that", func(t *testing.T) {
		s := fusetest.StartKept(t, right)
		keepFirst(t, s.Path)
		names := newSymbols(t, Options{Sysroot: s.Dir, NoLines: true})
		if n := names.Name(f, at+4, true); n.Function != "work" {
			t.Errorf("as it is: %+v\n%+v", n, names.Tries(f))
		}
		s.Exchange(other)
		advise(t, s.Path, unix.FADV_DONTNEED)
		if n := names.Name(f, at+5, true); n.Function == "jerk" {
			t.Errorf("exchanged: %+v\n%+v", n, names.Tries(f))
		}
	})
	t.Run("not exchanged", func(t *testing.T) {
		s := fusetest.StartKept(t, right)
		names := newSymbols(t, Options{Sysroot: s.Dir, NoLines: true})
		for _, offset := range []uint64{at + 4, at + 5} {
			if n := names.Name(f, offset, true); n.Function != "work" {
				t.Errorf("%+v\n%+v", n, names.Tries(f))
			}
		}
	})
}

// keepFirst has the kernel keep the first page of a file, and no other.
func keepFirst(t *testing.T, path string) {
	t.Helper()
	f := advise(t, path, unix.FADV_RANDOM)
	if _, err := f.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
}

// advise opens a file, and gives the kernel advice on its pages.
func advise(t *testing.T, path string, advice int) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Fadvise(int(f.Fd()), 0, 0, advice); err != nil {
		t.Fatal(err)
	}
	return f
}
