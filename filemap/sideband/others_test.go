package sideband

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// undo makes a write that is undone, the time of the file as well.
func undo(write func(f *os.File, path string) error) func(*os.File, string) error {
	return func(f *os.File, path string) error {
		was := make([]byte, page)
		_, err := f.ReadAt(was, 0)
		var st unix.Stat_t
		err = errors.Join(err, unix.Fstat(int(f.Fd()), &st), write(f, path))
		_, back := f.WriteAt(was, 0)
		times := []unix.Timespec{st.Atim, st.Mtim}
		return errors.Join(err, back, unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), times, 0))
	}
}

// giveAway makes a file one to which others than root can write.
func giveAway(t *testing.T, path string) {
	t.Helper()
	const user = 65534
	if os.Getuid() != 0 {
		return // it is our own
	}
	if err := os.Chown(path, user, -1); err != nil {
		t.Fatal(err)
	}
}

// TestWrittenLate: a file that others can write loses its build ID when that is another one,
// though no time shows it: the page of a shared mapping was dirty before.
func TestWrittenLate(t *testing.T) {
	b := watchingBand(t)
	path := filepath.Join(t.TempDir(), "library")
	f, err := newFile(mappedLibrary(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[0] = 0x7f // as it is
	giveAway(t, path)
	pass(b, 3*coarse)
	addr := keptCode(t, path)
	before := b.Now()
	drain(t, b)
	if !idAt(t, b, addr, before) {
		t.Fatal("before: the file has no build ID")
	}
	clear(mem[64:])
	after := b.Now()
	drain(t, b)
	if idAt(t, b, addr, after) {
		t.Error("after: the file has a build ID")
	}
}

// TestWrittenAside: a file that was written before it was looked at has no build ID, though
// another one with that ID has taken its place, of which no time has changed: the directory
// has become another one.
func TestWrittenAside(t *testing.T) {
	b := watchingBand(t)
	dir := t.TempDir()
	at, aside := filepath.Join(dir, "at"), filepath.Join(dir, "aside")
	var mapped *os.File
	for _, d := range []string{aside, at} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := newFile(mappedLibrary(t), filepath.Join(d, "library"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		giveAway(t, f.Name())
		mapped = f
	}
	pass(b, 3*coarse)
	addr := keptCode(t, mapped.Name())
	if err := errors.Join(os.Rename(at, at+".gone"), os.Rename(aside, at)); err != nil {
		t.Fatal(err)
	}
	if _, err := mapped.WriteAt(make([]byte, page-64), 64); err != nil {
		t.Fatal(err)
	}
	after := b.Now()
	drain(t, b)
	drain(t, b)
	if idAt(t, b, addr, after) {
		t.Error("the file has a build ID")
	}
}

// TestWrittenUndoneAtOnce: nor has a file a build ID that was written, which was undone, before
// it was looked at.
func TestWrittenUndoneAtOnce(t *testing.T) {
	b := watchingBand(t)
	path := filepath.Join(t.TempDir(), "library")
	f, err := linkedFile(mappedLibrary(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	giveAway(t, path)
	pass(b, 3*coarse)
	addr := keptCode(t, path)
	time.Sleep(3 * coarse) // within a tick nothing shows it
	if err := undo(writeID)(f, path); err != nil {
		t.Fatal(err)
	}
	after := b.Now()
	drain(t, b)
	if idAt(t, b, addr, after) {
		t.Error("the file has a build ID")
	}
}
