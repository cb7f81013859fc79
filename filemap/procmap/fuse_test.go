package procmap

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
)

// TestSilentServer: a file of a server that gives no answer blocks no reader, the
// next files of it are not tried, and it is not checked for changes.
func TestSilentServer(t *testing.T) {
	elf, err := os.ReadFile(buildWith(t, "lib.so", "-Wl,--build-id=0x0badcafe"))
	if err != nil {
		t.Fatal(err)
	}
	bothSources(t, Options{}, func(t *testing.T, r *Reader) {
		s := fusetest.Start(t, elf)
		addr := mapFile(t, s.Path, unix.PROT_READ|unix.PROT_EXEC)
		at := func() Mapping {
			t.Helper()
			h, err := r.Open(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			m, ok, err := h.At(addr)
			if err != nil || !ok || m.Name != s.Path {
				t.Fatalf("%+v, %v, %v", m, ok, err)
			}
			return m
		}
		guard := &fakeGuard{yes: true, during: func() { t.Error("the guard looks at the file") }}
		r.opt.IDs = NewIDs(guard)
		if m := at(); m.BuildID.Hex() != "0badcafe" {
			t.Errorf("while the server answers the build ID is %q", m.BuildID.Hex())
		}
		r.opt.IDs = NewIDs(guard)
		r.opt.IDs.reads = bounded.New(10 * time.Millisecond)
		s.Silence()
		if m := at(); !m.BuildID.IsZero() {
			t.Errorf("a server that gives no answer gives a build ID: %v", m.BuildID.Hex())
		}
		waitFor(t, func() bool { return s.Asked() > 0 }) // who asks may not have run yet when it is given up
		asked := s.Asked()
		at()
		if s.Asked() != asked {
			t.Errorf("asked %d times, and then %d times", asked, s.Asked())
		}
	})
}

// TestServersFile: the number of an inode proves nothing where a server gives it. The link of
// the mapping leads to the mapped file, its path need not.
func TestServersFile(t *testing.T) {
	elf, err := os.ReadFile(buildWith(t, "lib.so", "-Wl,--build-id=0x0badcafe"))
	if err != nil {
		t.Fatal(err)
	}
	s := fusetest.Start(t, elf)
	m := checkAt(t, mapFile(t, s.Path, unix.PROT_READ|unix.PROT_EXEC), s.Path, File)
	f := newMappedFile(needText(t, Options{}), os.Getpid(), &m)
	if fd, err := f.openAs("/proc/self/root"+m.Name, false); err == nil {
		_ = unix.Close(fd)
		t.Error("the file at the path is taken for the mapped one")
	}
}
