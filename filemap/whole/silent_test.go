package whole

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// TestOpenSilent: a mapped file of a server that gives no answer keeps nothing from
// being unwound, whether the server falls silent before the file is opened or while it
// is read.
func TestOpenSilent(t *testing.T) {
	name, _ := systemFile(t)
	contents, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []bool{true, false} {
		files := openfile.NewOpener(50 * time.Millisecond)
		defer files.Close()
		o := Opener{Reader: reader, Files: files}
		s := fusetest.Start(t, contents)
		m := mapped(t, s.Path)
		if before {
			s.Silence()
		}
		done := make(chan error, 1)
		go func() {
			b, err := o.Open(os.Getpid(), m)
			if err == nil {
				s.Silence()
				_, err = b.ReadAt(make([]byte, 16), b.Size-16)
				b.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Error("a server that gives no answer gives a file")
			}
			t.Log(err)
		case <-time.After(20 * bounded.DefaultWait):
			if err := unix.Unmount(s.Dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
			<-done
			t.Fatal("it waits for the server")
		}
	}
}

// mapped maps the beginning of a file as code.
func mapped(t *testing.T, name string) *space.Mapping {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	return &space.Mapping{Start: start, End: start + uint64(len(mem)), Perms: procmap.Read | procmap.Exec, File: &space.File{
		Name: name, Kind: procmap.File, Inode: st.Ino, Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)},
	}}
}
