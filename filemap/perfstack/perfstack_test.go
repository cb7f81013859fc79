package perfstack

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs/perfdata"
)

// TestRegisters: registers are known by their DWARF numbers, but not what kernels before 5.11
// report of system calls: all ones for what was not saved.
func TestRegisters(t *testing.T) {
	const none = ^uint64(0)
	for _, c := range []struct {
		bx, r12 uint64
		known   bool
	}{{1, 2, true}, {none, 2, true}, {none, none, false}} {
		r := registers(elf.EM_X86_64, &perfdata.Copy{Mask: 1<<0 | 1<<1 | 1<<7 | 1<<8 | 1<<20, Values: []uint64{9, c.bx, 0x7ffe0000, 0x401000, c.r12}})
		bx, known := r.Get(3)
		pc, _ := r.Get(unwind.AMD64PC)
		sp, _ := r.Get(stackPointer(elf.EM_X86_64))
		ax, _ := r.Get(0)
		if known != c.known || known && bx != c.bx || pc != 0x401000 || sp != 0x7ffe0000 || ax != 9 {
			t.Errorf("%+v: bx %#x %v, pc %#x, sp %#x, ax %#x", c, bx, known, pc, sp, ax)
		}
	}
	r := registers(elf.EM_X86_64, &perfdata.Copy{Mask: 1 << 7, Values: []uint64{5}})
	if sp, ok := r.Get(unwind.AMD64SP); !ok || sp != 5 {
		t.Errorf("sp %d, %v", sp, ok)
	}
}

// TestSame: a file without a build ID is the mapped one if it has its device and inode, and has
// not changed since the end of the recording.
func TestSame(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, []byte("no ELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	dev := procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
	later, before := time.Unix(st.Ctim.Unix()).Add(time.Hour), time.Unix(st.Ctim.Unix()).Add(-time.Hour)
	right, _ := generation(t, name)
	for _, c := range []struct {
		file    space.File
		written time.Time
		same    bool
	}{
		{space.File{Name: name, Inode: st.Ino, Dev: dev}, later, true},
		{space.File{Name: name, Inode: st.Ino, Dev: dev}, before, false},
		{space.File{Name: name, Inode: st.Ino, Dev: dev}, time.Time{}, false},
		{space.File{Name: name, Inode: st.Ino + 1, Dev: dev}, later, false},
		{space.File{Name: name, Inode: st.Ino, Dev: procmap.Dev{Major: dev.Major, Minor: dev.Minor + 1}}, later, false},
		{space.File{Name: name}, later, false},
	} {
		u := New(Options{Arch: "x86_64", Written: c.written, Space: func(int) *space.Space { return nil },
			BuildID:    func(f *space.File) elfid.ID { return f.BuildID },
			Generation: func(*space.File) (uint32, bool) { return right, true }})
		b, err := u.open(&c.file)
		if c.same != (err == nil) || err != nil && !errors.Is(err, errOther) {
			t.Errorf("%+v at %v: %v", c.file, c.written, err)
		}
		if err == nil {
			b.Close()
		}
		if frames := u.Unwind(&perfdata.Copy{PID: 7, Wide: true}); frames != nil {
			t.Errorf("%d frames of a process without mappings", len(frames))
		}
		u.Close()
	}
}

// generation is that of the inode of a file, if its file system says so (lsattr -v).
func generation(t *testing.T, name string) (number uint32, ok bool) {
	t.Helper()
	files := openfile.NewOpener(0)
	defer files.Close()
	f, err := files.Path(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	is, numbered := f.Generation()
	if !numbered {
		t.Skip("a file system whose inodes have numbers of their own is needed")
	}
	if is == nil {
		return 0, false
	}
	return *is, true
}

// TestReused: a file whose inode has the number of the recorded one, which was deleted, is another
// one by the generation of the inode.
func TestReused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, []byte("no ELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	right, ok := generation(t, name)
	if !ok {
		t.Skip("a file system whose inodes have generations is needed")
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	file := space.File{Name: name, Inode: st.Ino, Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}}
	for _, c := range []struct {
		was   uint32
		known bool
		same  bool
	}{{right, true, true}, {right + 1, true, false}, {0, true, true}, {right, false, false}} {
		u := New(Options{Arch: "x86_64", Written: time.Now().Add(time.Hour), Space: func(int) *space.Space { return nil },
			BuildID:    func(f *space.File) elfid.ID { return f.BuildID },
			Generation: func(*space.File) (uint32, bool) { return c.was, c.known }})
		b, err := u.open(&file)
		if c.same != (err == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			b.Close()
		}
		u.Close()
	}
}

// TestReplaceable: the file at the path of one that was removed from a directory like /tmp can be
// another user's, with the build ID of that.
func TestReplaceable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "program")
	if err := errors.Join(os.WriteFile(name, self, 0o755), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	id, err := elfid.Read(bytes.NewReader(self))
	if err != nil {
		t.Fatal(err)
	}
	file := &space.File{Name: name, BuildID: id, Kind: procmap.File}
	u := New(Options{Arch: "x86_64", Space: func(int) *space.Space { return nil }, BuildID: func(*space.File) elfid.ID { return id }})
	defer u.Close()
	for _, c := range []struct {
		owner int
		opens bool
	}{{0, true}, {65534, false}} {
		if err := os.Chown(name, c.owner, c.owner); err != nil {
			t.Fatal(err)
		}
		b, err := u.open(file)
		if c.opens != (err == nil) || err != nil && !errors.Is(err, openfile.ErrReplaceable) {
			t.Errorf("of user %d: %v", c.owner, err)
		}
		if err == nil {
			b.Close()
		}
	}
}
