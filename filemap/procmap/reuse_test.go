package procmap

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// changing is a file that this process has mapped, and that becomes another one.
type changing struct {
	t      *testing.T
	name   string
	memory []byte
}

// become maps a copy of a library in place of what was there, which is removed.
func (c *changing) become(library string) (inode uint64) {
	c.t.Helper()
	c.end()
	content, err := os.ReadFile(library)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.name, content, 0o700); err != nil {
		c.t.Fatal(err)
	}
	fd, err := unix.Open(c.name, unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.Open would poll it, and keep a P
	if err != nil {
		c.t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		c.t.Fatal(err)
	}
	if c.memory, err = unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err != nil {
		c.t.Fatal(err)
	}
	return st.Ino
}

func (c *changing) end() {
	c.t.Helper()
	if c.memory == nil {
		return
	}
	if err := unix.Munmap(c.memory); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Remove(c.name); err != nil {
		c.t.Fatal(err)
	}
	c.memory = nil
}

// TestInodeUsedAgain: while all processes are read, a file can go, and another one of the same
// name get its inode. Who maps that is read later, and has its build ID.
func TestInodeUsedAgain(t *testing.T) {
	first := buildWith(t, "first.so", "-Wl,--build-id=0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	second := buildWith(t, "second.so", "-Wl,--build-id=0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	file := &changing{t: t, name: filepath.Join(t.TempDir(), "library.so")}
	defer file.end()
	if inode := file.become(first); file.become(second) != inode {
		t.Skip("the file system does not use inodes again at once")
	}
	bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		file.t = t
		file.become(first)
		want := []byte{0xaa}
		before := openFiles(t)
		if _, err := r.Walk([]int{os.Getpid(), os.Getpid()}, func(p *Process, err error) error {
			if err != nil {
				return err
			}
			if id := idIn(p, file.name); len(id) != 20 || !bytes.HasPrefix(id, want) {
				t.Errorf("the build ID is %x, not %x...", id, want)
			}
			file.become(second)
			want = []byte{0xbb}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%d files are open, and %d before", after, before)
		}
	})
}

// idIn is the build ID of the file of a name that a process has mapped.
func idIn(p *Process, name string) []byte {
	for i := range p.Mappings {
		if m := &p.Mappings[i]; m.Name == name {
			id := m.BuildID.Padded()
			return id[:m.BuildID.Len()]
		}
	}
	return nil
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestWrittenBetween: while all processes are read, a file can be written in place, and mapped by
// a process that is read later.
func TestWrittenBetween(t *testing.T) {
	first := buildWith(t, "first.so", "-Wl,--build-id=0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	second := buildWith(t, "second.so", "-Wl,--build-id=0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	content, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	file := &changing{t: t, name: filepath.Join(t.TempDir(), "library.so")}
	defer file.end()
	bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		file.t = t
		file.become(first)
		time.Sleep(30 * time.Millisecond) // so that the file is not young
		want := []byte{0xaa}
		if _, err := r.Walk([]int{os.Getpid(), os.Getpid()}, func(p *Process, err error) error {
			if err != nil {
				return err
			}
			if id := idIn(p, file.name); len(id) != 20 || !bytes.HasPrefix(id, want) {
				t.Errorf("the build ID is %x, not %x...", id, want)
			}
			want = []byte{0xbb}
			return os.WriteFile(file.name, content, 0o700)
		}); err != nil {
			t.Fatal(err)
		}
	})
}
