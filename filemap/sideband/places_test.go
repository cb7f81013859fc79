package sideband

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/tracefs"
)

// idOf returns the build ID that a file has by what is known of an address of ours.
func idOf(t *testing.T, b *Band, addr uint64) (known bool) {
	t.Helper()
	return idAt(t, b, addr, b.Now())
}

// idAt is idOf at a time.
func idAt(t *testing.T, b *Band, addr uint64, at tracefs.Time) (known bool) {
	t.Helper()
	p, ok := b.History.Lookup(os.Getpid(), addr, at)
	if !ok {
		t.Fatalf("nothing is at %#x", addr)
	}
	return !p.Mapping.File.BuildID.IsZero()
}

// TestWrittenFull: of files for which there is no room to watch them, none has a build ID,
// whether they are found by a record or by a reading.
func TestWrittenFull(t *testing.T) {
	b := watchingBand(t)
	library, dir := mappedLibrary(t), t.TempDir()
	b.files.stamps.sweep = time.Now().Add(time.Hour) // none is released meanwhile
	var addrs []uint64
	for _, name := range []string{"a", "b", "c"} {
		f, err := newFile(library, filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		pass(b, 3*coarse)
		addrs = append(addrs, keptCode(t, filepath.Join(dir, name)))
		drain(t, b)
		b.files.stamps.most = 1 // which is the first one, or another program's
	}
	if !idOf(t, b, addrs[0]) {
		t.Error("the first file has no build ID")
	}
	for _, addr := range addrs[1:] {
		if idOf(t, b, addr) {
			t.Errorf("the file at %#x, which is not watched, has a build ID", addr)
		}
	}
}

// TestWrittenAtOnce: so has a file that was deleted and written before it could be looked at.
func TestWrittenAtOnce(t *testing.T) {
	b := watchingBand(t)
	path := filepath.Join(t.TempDir(), "library")
	f, err := newFile(mappedLibrary(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pass(b, 3*coarse)
	addr := keptCode(t, path)
	_, err = f.WriteAt(make([]byte, page-64), 64) // the notes, too
	if err := errors.Join(err, os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	drain(t, b) // the kernel's record has the ID
	if idOf(t, b, addr) {
		t.Error("the file has the build ID that it had before")
	}
}

// TestWrittenDevices: a file in a directory where those of the kernel are can be written, too.
func TestWrittenDevices(t *testing.T) {
	dir, err := os.MkdirTemp("/dev", "ustack")
	if err != nil {
		skip(t, "%v", err)
	}
	defer os.RemoveAll(dir)
	b := watchingBand(t)
	path := filepath.Join(dir, "library")
	f, err := newFile(mappedLibrary(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pass(b, 3*coarse)
	addr := keptCode(t, path)
	drain(t, b)
	if !idOf(t, b, addr) {
		t.Fatal("the file has no build ID")
	}
	pass(b, 3*coarse)
	if err := writeCode(f, path); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	if idOf(t, b, addr) {
		t.Error("the file that was written has a build ID")
	}
}

// TestLayered: a file of an overlay of which anything has changed may not be the one that is
// mapped, and one that others than root can write may be written. Others keep their build IDs.
func TestLayered(t *testing.T) {
	library, path := mappedLibrary(t), filepath.Join(t.TempDir(), "library")
	f, err := newFile(library, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	at, _ := statFD(fd)
	time.Sleep(3 * coarse)
	if err := f.Chmod(0o700); err != nil {
		t.Fatal(err)
	}
	calls := bounded.New(time.Minute)
	for _, c := range []struct{ layered, roots, same bool }{{false, true, true}, {true, true, false}, {false, false, false}} {
		at.roots = c.roots // whichever user runs the test
		s := stamped{mappedFile: mappedFile{path, buildID(t, library)}, fd: fd, at: at, layered: c.layered}
		if s.check(calls) != c.same {
			t.Errorf("%+v: the file counts as the same: %v", c, !c.same)
		}
	}
}

// TestLayeredLate: a file of an overlay that others than root can write loses its build ID when
// that is another one, though no time shows it: the page of a shared mapping was dirty before.
func TestLayeredLate(t *testing.T) {
	library, path := mappedLibrary(t), filepath.Join(t.TempDir(), "library")
	f, err := newFile(library, path)
	check(t, err)
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(t, err)
	defer unix.Munmap(mem)
	mem[0] = elf.ELFMAG[0] // as it was: it is dirty from now on
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	at, _ := statFD(fd)
	at.roots = false // whichever user runs the test
	s := stamped{mappedFile: mappedFile{path, buildID(t, library)}, fd: fd, at: at, layered: true}
	calls := bounded.New(time.Minute)
	if !s.check(calls) {
		t.Error("the file does not count as the same before it is written")
	}
	clear(mem[64:])
	if s.check(calls) {
		t.Error("the file that was written counts as the same")
	}
}
