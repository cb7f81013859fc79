package openfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
)

// TestOpenerSilentServer: a server that gives no answer keeps no reader, and files of
// disks are read still.
func TestOpenerSilentServer(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), piece/16+1)
	s := fusetest.Start(t, want)
	patient, o := NewOpener(time.Minute), NewOpener(50*time.Millisecond)
	defer patient.Close()
	defer o.Close()
	f, err := patient.Named(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) || f.Size() != int64(len(want)) {
		t.Fatalf("%d of %d bytes, %v", n, f.Size(), err)
	}
	if n := s.Polled(); n > 0 {
		t.Errorf("the server was asked %d times whether the file is ready: the scheduler waits for the answer", n)
	}
	dir, err := os.OpenRoot(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.Path, link); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	for what, open := range map[string]func() (*File, error){
		"named":  func() (*File, error) { return o.Named(s.Dir + "/other.so") },
		"again":  func() (*File, error) { return o.Named(s.Dir + "/another.so") },
		"linked": func() (*File, error) { return o.Path(link) },
		"in":     func() (*File, error) { return o.In(dir, "third.so") },
	} {
		if _, err := open(); !errors.Is(err, bounded.ErrSlow) && !errors.Is(err, bounded.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, want, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := o.Path(disk)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := g.ReadAt(got, 0); n != len(want) || err != nil {
		t.Errorf("a file of a disk: %d bytes, %v", n, err)
	}
	if err := errors.Join(f.Close(), g.Close()); err != nil {
		t.Error(err)
	}
}

// TestWritten: a file that is written after it was opened is not read any more, one that gets
// another name, or other permissions, is.
func TestWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := NewOpener(0)
	defer o.Close()
	for _, limited := range []bool{false, true} {
		f, err := o.Path(name)
		if err != nil {
			t.Fatal(err)
		}
		if limited {
			f.calls = o.calls
		}
		reads := func(what string, want error) {
			t.Helper()
			if _, err := f.ReadAt(make([]byte, 4), 1); !errors.Is(err, want) || f.Written() != (want != nil) {
				t.Errorf("limited %v, %s: %v, want %v; written: %v", limited, what, err, want, f.Written())
			}
		}
		if err := errors.Join(os.Rename(name, name+".old"), os.Link(name+".old", name), os.Chmod(name, 0o640)); err != nil {
			t.Fatal(err)
		}
		reads("named anew", nil)
		time.Sleep(20 * time.Millisecond) // times of files may advance in ticks
		if err := os.WriteFile(name, []byte("after."), 0); err != nil {
			t.Fatal(err)
		}
		reads("written", ErrWritten)
		if err := errors.Join(f.Close(), os.Remove(name+".old")); err != nil {
			t.Fatal(err)
		}
	}
}
