package sideband

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
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
	checkWritten(t, b, addr, mem)
}

// checkWritten writes to a mapped file by way of a shared mapping: it has a build ID until then.
func checkWritten(t *testing.T, b *Band, addr uint64, mem []byte) {
	t.Helper()
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

// TestWrittenInMemory: so does one to which only root can write, where pages stay dirty for good.
func TestWrittenInMemory(t *testing.T) {
	b := watchingBand(t)
	path := filepath.Join(mountInMemory(t, "tmpfs"), "library")
	f, err := newFile(mappedLibrary(t), path)
	check(t, err)
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(t, err)
	defer unix.Munmap(mem)
	mem[0] = elf.ELFMAG[0] // as it is
	pass(b, 3*coarse)
	addr := keptCode(t, path)
	checkWritten(t, b, addr, mem)
}

// TestInMemory: these file systems are known to have files in memory only, of this kernel.
func TestInMemory(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ramfs", "hugetlbfs"} {
		t.Run(kind, func(t *testing.T) {
			f, err := os.Create(filepath.Join(mountInMemory(t, kind), "file"))
			check(t, err)
			defer f.Close()
			if !inMemory(int(f.Fd())) || !openfile.Local(int(f.Fd())) {
				t.Error("it is taken for another one")
			}
		})
	}
	pipe, end, err := os.Pipe()
	check(t, err)
	defer pipe.Close()
	defer end.Close()
	if inMemory(int(pipe.Fd())) {
		t.Error("a pipe is taken for a file in memory")
	}
}

// mountInMemory mounts a file system without a disk, and returns its directory.
func mountInMemory(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, kind, 0, "mode=755"); err != nil {
		t.Skipf("mounting %s: %v", kind, err)
	}
	t.Cleanup(func() { check(t, ignore(unix.Unmount(dir, unix.MNT_DETACH), unix.EINVAL)) })
	return dir
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
