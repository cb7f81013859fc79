package watch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// mapPage maps a file into this process.
func mapPage(t *testing.T, name string) (addr uint64, unmap func()) {
	t.Helper()
	fd, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	b, err := unix.Mmap(int(fd.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), func() { _ = unix.Munmap(b) }
}

// TestReplacedFile is the whole: a library is replaced by another one under the
// same name, which on many file systems gets the same inode number. Its build
// ID is never that of the one before, and that of a file which stays is asked
// for once.
func TestReplacedFile(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	var w *Watcher
	ids := procmap.NewIDs(nil)
	w = New(Options{Forget: ids.Forget, Log: func(m string) { t.Log(m) }})
	defer w.Close()
	ids.SetGuard(w)
	r, err := procmap.NewReader(procmap.Options{IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	at := func(addr uint64) procmap.Mapping {
		t.Helper()
		h, err := r.Open(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		m, ok, err := h.At(addr)
		if !ok || err != nil {
			t.Fatalf("%v %v", ok, err)
		}
		return m
	}
	// Two ELF files that differ in nothing but the build ID.
	dir := t.TempDir()
	steady := dir + "/steady.so"
	if err := os.WriteFile(steady, self, 0o755); err != nil {
		t.Fatal(err)
	}
	steadyAddr, unmap := mapPage(t, steady)
	defer unmap()
	real := at(steadyAddr).BuildID
	if real.IsZero() {
		t.Skip("the test program has no build ID")
	}
	other := []byte(strings.Replace(string(self), string(rawID(real.Hex())), strings.Repeat("\xab", real.Len()), -1))
	asked := ids.Asked()
	name := dir + "/lib.so"
	var last procmap.Mapping
	reused := 0
	for round := range 40 {
		content, want := self, real.Hex()
		if round%2 == 1 {
			content, want = other, strings.Repeat("ab", real.Len())
		}
		if err := os.WriteFile(name, content, 0o755); err != nil {
			t.Fatal(err)
		}
		addr, unmap := mapPage(t, name)
		for range 3 {
			m := at(addr)
			if m.BuildID.Hex() != want {
				t.Fatalf("round %d: the build ID is %s, want %s", round, m.BuildID.Hex(), want)
			}
			if m.Inode == last.Inode && m.BuildID != last.BuildID {
				reused++
				if m.Generation == last.Generation {
					t.Errorf("round %d: another file has the same generation %d", round, m.Generation)
				}
			}
			last = m
			at(steadyAddr)
		}
		unmap()
		switch round % 4 {
		case 0:
			os.Remove(name)
		case 1:
			os.Rename(name, dir+"/old.so")
			os.Remove(dir + "/old.so")
		}
	}
	t.Logf("%d times an inode number came again; %+v", reused, w.Stats())
	if n := ids.Asked() - asked; n != 40 {
		t.Errorf("asked %d times, there were 40 files", n)
	}
}

func rawID(hex string) []byte {
	var b []byte
	for i := 0; i+1 < len(hex); i += 2 {
		var v byte
		fmt.Sscanf(hex[i:i+2], "%02x", &v)
		b = append(b, v)
	}
	return b
}
