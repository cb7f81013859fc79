package sideband

import (
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
)

// TestSilentMapped: files of a server that gives no answer any more keep nothing from
// being drained, though they are mapped, with a build ID.
func TestSilentMapped(t *testing.T) {
	library, err := os.ReadFile(mappedLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	b := watchingBand(t)
	b.completer.calls = bounded.New(0)
	fd := -1
	t.Cleanup(func() { _ = unix.Close(fd) }) // once it is unmounted: the server is asked
	s := fusetest.Start(t, library)
	if fd, err = unix.Open(s.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	mapIt := func() uint64 {
		mem, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(mem) })
		// The page has to be in memory, so that perf can read the build ID. A system call
		// brings it: in a page fault the runtime would wait for this thread before it
		// collects garbage, the server in this process for the runtime, and this thread for
		// the server, so that not even SIGKILL ends the process.
		if err := unix.Madvise(mem, unix.MADV_POPULATE_READ); err != nil {
			t.Skipf("no MADV_POPULATE_READ before Linux 5.14: %v", err)
		}
		if mem[0] != 0x7f {
			t.Fatal("no ELF file")
		}
		return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	}
	mapIt()
	s.Silence()
	addr := mapIt()
	drained := make(chan error, 1)
	go func() {
		_, err := b.Drain()
		drained <- err
	}()
	select {
	case err := <-drained:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		if err := unix.Unmount(s.Dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		<-drained
		t.Fatal("it waits for the server")
	}
	p, ok := b.History.Lookup(os.Getpid(), addr, b.Now())
	if !ok || p.Mapping.File.Name != s.Path {
		t.Errorf("the code is in %+v, %v", p.Mapping, ok)
	}
	t.Logf("%d requests, build ID %q", s.Asked(), p.Mapping.File.BuildID.Hex())
}
