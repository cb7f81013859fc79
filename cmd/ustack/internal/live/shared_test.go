package live

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// idAt is the ID of the file that this process has mapped at an address.
func idAt(t *testing.T, fl *following, b []byte) string {
	t.Helper()
	pid, addr := os.Getpid(), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	m, there, ok := fl.at(pid, addr)
	if !ok || !there {
		t.Fatalf("nothing at %#x", addr)
	}
	id, ok := fl.fileID(pid, &m, there)
	if !ok {
		t.Fatalf("%+v has no ID", m)
	}
	return id
}

func newIDs(t *testing.T) *following {
	t.Helper()
	all, err := procmap.NewReader(procmap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fl := &following{all: all}
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	m, there, _ := fl.at(os.Getpid(), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))))
	if _, err := fl.handle(os.Getpid(), &m); err != nil || !there {
		t.Skipf("no handle of shared memory: %v", err)
	}
	return fl
}

// TestFileIDSysV: segments of two IPC namespaces have one number, and are not one file; a
// segment that is mapped twice is.
func TestFileIDSysV(t *testing.T) {
	fl := newIDs(t)
	runtime.LockOSThread() // and end it: it is in another namespace
	var ids []string
	for range 2 {
		if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
			t.Skip(err)
		}
		n, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			b, err := unix.SysvShmAttach(n, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, idAt(t, fl, b))
		}
	}
	if ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] {
		t.Errorf("the segments are %q", ids)
	}
}

// TestFileIDAgain: a file that is made when another one of its name and number has gone is
// not that one.
func TestFileIDAgain(t *testing.T) {
	fl := newIDs(t)
	path := filepath.Join(t.TempDir(), "locks")
	seen := make(map[string]bool)
	const files = 8
	for range files {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(4096); err != nil {
			t.Fatal(err)
		}
		b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		seen[idAt(t, fl, b)] = true
		for _, err := range []error{unix.Munmap(b), f.Close(), os.Remove(path)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(seen) != files {
		t.Errorf("%d files have %d IDs: %v", files, len(seen), seen)
	}
}
