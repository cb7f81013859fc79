package openfile

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/fusetest"
)

// first is the identity of the files of these tests: what they begin with.
func first(r io.ReaderAt) (elfid.ID, error) {
	b := make([]byte, 8)
	if _, err := r.ReadAt(b, 0); err != nil {
		return elfid.ID{}, err
	}
	id, _ := elfid.New(b)
	return id, nil
}

// TestServed: what is read of a file of a server stays as it was read, and whether it was all of one
// file is known.
func TestServed(t *testing.T) {
	old := make([]byte, 5*keptPiece+123)
	for i := range old {
		old[i] = byte(i>>3 ^ i>>11)
	}
	other := bytes.Repeat([]byte{'n'}, len(old))
	s := fusetest.StartKept(t, old)
	f := openAt(t, s.Path)
	if id, err := f.IDBy(first); err != nil || f.Memory() != maxKept {
		t.Fatalf("%s, %v, keeps %d", id.Hex(), err, f.Memory())
	}
	for range 2000 {
		at := rand.IntN(3*keptPiece - 300)
		got := make([]byte, rand.IntN(300))
		if _, err := f.ReadAt(got, int64(at)); err != nil || !bytes.Equal(got, old[at:at+len(got)]) {
			t.Fatalf("%d bytes at %d: %v", len(got), at, err)
		}
	}
	if got := make([]byte, 300); !isTail(f, got, int64(len(old)-200), old[len(old)-200:]) || !isTail(f, got, int64(len(old)), nil) {
		t.Error("the end of the file is another one")
	}
	if !f.Unseen() {
		t.Error("nothing was read")
	}
	if _, err := f.IDBy(first); err != nil || f.Unseen() {
		t.Errorf("%v, unseen %v", err, f.Unseen())
	}
	s.Exchange(other)
	got := make([]byte, 300)
	if _, err := f.ReadAt(got, keptPiece); err != nil || !bytes.Equal(got, old[keptPiece:keptPiece+300]) || f.Unseen() {
		t.Errorf("what was read before: %v, unseen %v", err, f.Unseen())
	}
	if _, err := f.ReadAt(got, 3*keptPiece); err != nil || !f.Unseen() {
		t.Errorf("what was not read before: %v, unseen %v", err, f.Unseen())
	}
	if _, err := f.IDBy(first); !errors.Is(err, ErrServed) || !f.Unseen() {
		t.Errorf("another file: %v, unseen %v", err, f.Unseen())
	}
}

// TestServedRefused: a server that cannot be read past what the kernel keeps may have another file.
func TestServedRefused(t *testing.T) {
	s := fusetest.StartKept(t, bytes.Repeat([]byte("0123456789abcdef"), 1024))
	s.OnlyKept()
	f := openAt(t, s.Path)
	if _, err := f.IDBy(first); !errors.Is(err, ErrServed) || !errors.Is(err, unix.EINVAL) || !f.Unseen() {
		t.Errorf("%v, unseen %v", err, f.Unseen())
	}
}

// TestNotServed: a file that only this kernel changes is not read twice.
func TestNotServed(t *testing.T) {
	f := openAt(t, "/proc/self/exe")
	if holderOf(int(f.file.Fd())) != kernel {
		t.Skip("this program is on no disk")
	}
	if _, err := f.ID(); err != nil || f.Unseen() || f.served.direct != nil || f.Memory() != 0 {
		t.Errorf("%v, unseen %v, keeps %d", err, f.Unseen(), f.Memory())
	}
}

// TestHolderOfOverlay: a file of an overlay is on a disk if the layer is on one, and has a server if that
// has one.
func TestHolderOfOverlay(t *testing.T) {
	s := fusetest.StartKept(t, []byte("a file"))
	for _, test := range []struct {
		lower, name string
		want        holder
	}{{t.TempDir(), "file", kernel}, {s.Dir, fusetest.Name, another}} {
		if test.want == kernel {
			if err := os.WriteFile(test.lower+"/file", []byte("a file"), 0o600); err != nil {
				t.Fatal(err)
			}
			below := openAt(t, test.lower+"/file")
			if !onDisk(int(below.file.Fd())) {
				t.Logf("%s is on no disk", test.lower)
				continue
			}
		}
		at := t.TempDir()
		if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+test.lower+":"+t.TempDir()); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		f := openAt(t, at+"/"+test.name)
		if got := holderOf(int(f.file.Fd())); got != test.want {
			t.Errorf("over %s: %d, not %d", test.lower, got, test.want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func openAt(t *testing.T, name string) *File {
	t.Helper()
	o := NewOpener(0)
	f, err := o.Path(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close(); o.Close() })
	return f
}

// isTail reports whether a read past the end of a file returns what is there.
func isTail(f *File, into []byte, at int64, want []byte) bool {
	n, err := f.ReadAt(into, at)
	return err == io.EOF && bytes.Equal(into[:n], want)
}
