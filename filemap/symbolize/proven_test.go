//go:build !device

package symbolize

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
)

// TestProven: a file that another user can have put at its path names functions once it is known
// to be what was mapped, and until another one was, too.
func TestProven(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	path := build(t, "gcc", "-O2", "testdata/src/work.c")
	at, f := workAt(t, path), fileOf(t, path)
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o1777), os.Chown(path, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	since := openfile.BeginAt(time.Unix(0, 0)) // so it has changed since
	s := newSymbols(t, Options{NoLines: true, Since: since})
	named := func(what, function string, reason symbol.Reason) {
		t.Helper()
		for range 2 {
			if n := s.Name(f, at+4, true); n.Function != function || n.Reason != reason {
				t.Errorf("%s: %+v, want %q, %v\n%+v", what, n, function, reason, s.Tries(f))
			}
		}
	}
	named("before it was mapped", "", symbol.Replaceable)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	is, id := openfile.Mapped{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev), Inode: st.Ino, Changed: time.Unix(st.Ctim.Unix())}, f.BuildID
	hex := symbol.ShortHex(id)
	since.Mapped(path, hex, is)
	since.Settled(path, hex)
	named("mapped", "work", 0)
	is.Inode++
	since.Mapped(path, hex, is)
	named("another one is mapped, too", "", symbol.Replaceable)
}
