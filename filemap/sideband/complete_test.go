package sideband

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/filemap/fusetest"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestIDOfTheDead: the build ID of a program that has ended, and that the kernel
// does not report, is read from the file if that is still the same.
func TestIDOfTheDead(t *testing.T) {
	b, _ := openBand(t, Options{})
	b.completer.calls = bounded.New(time.Minute) // a busy machine may take longer than a second
	name := filepath.Join(t.TempDir(), "program")
	copyFile(t, "/proc/self/exe", name)
	want := buildID(t, name)
	if want.IsZero() {
		t.Skip("this test has no build ID")
	}
	other := filepath.Join(t.TempDir(), "other")
	copyFile(t, mappedLibrary(t), other)
	time.Sleep(3 * coarse) // or the file might have been written since
	for _, c := range []struct {
		what   string
		change func() error
		want   elfid.ID
	}{
		{"nothing", func() error { return nil }, want},
		{"again", func() error { return nil }, want},
		{"written", func() error { copyFile(t, other, name); return nil }, elfid.ID{}},
		{"replaced", func() error {
			copyFile(t, "/proc/self/exe", name+".new")
			return os.Rename(name+".new", name)
		}, elfid.ID{}},
		{"deleted", func() error { return os.Remove(name) }, elfid.ID{}},
	} {
		if c.what == "replaced" { // what was written is no program
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			copyFile(t, "/proc/self/exe", name)
			time.Sleep(3 * coarse)
		}
		cmd := exec.Command(name)
		cmd.Env = []string{helperMode + "=idle"} // until the end of its input: there is none
		if err := errors.Join(cmd.Run(), c.change()); err != nil {
			t.Fatal(err)
		}
		drain(t, b)
		versions := b.History.Spaces.Space(cmd.Process.Pid).Versions()
		found := false
		for m := range versions[len(versions)-1].Mappings.All() {
			if m.File.Name == name {
				found = true
				if m.File.Inode == 0 {
					t.Skip("this kernel reports the build ID that the Go linker writes")
				}
				if m.File.BuildID != c.want {
					t.Errorf("%s: build ID %s, want %s", c.what, m.File.BuildID.Hex(), c.want.Hex())
				}
			}
		}
		if !found {
			t.Errorf("%s: the program is not in %+v", c.what, versions)
		}
	}
}

// TestInKernel: files of the kernel are not read.
func TestInKernel(t *testing.T) {
	for name, want := range map[string]bool{"/proc/1/exe": true, "/sys/x": true, "/dev/mem": true, "/dev/shm/x": false, "/usr/x": false, "/devil": false} {
		if inKernel(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	var c completer
	m := procmap.Mapping{Name: "/proc/self/exe", Inode: 1, Start: 0x1000, End: 0x2000}
	c.complete(os.Getpid(), &m, perf.Now(0))
	if !m.BuildID.IsZero() || len(c.known) != 0 {
		t.Errorf("%+v", m)
	}
}

// TestSilentServer: who keeps a file from being read keeps no one who wants to.
func TestSilentServer(t *testing.T) {
	s := fusetest.Start(t, []byte("a file"))
	var st unix.Stat_t
	if err := unix.Stat(s.Path, &st); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	c := completer{calls: bounded.New(10 * time.Millisecond)}
	m := procmap.Mapping{Name: s.Path, Inode: st.Ino, Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}}
	c.complete(os.Getpid(), &m, perf.Now(0))
	if !m.BuildID.IsZero() || len(c.known) != 0 {
		t.Errorf("%+v", m)
	}
	for s.Asked() == 0 { // who asks may not have run yet when it is given up
		time.Sleep(time.Millisecond)
	}
}

// TestServersInode: a server can have another file at the path by now, of the same number.
func TestServersInode(t *testing.T) {
	library, err := os.ReadFile(mappedLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	s := fusetest.Start(t, library)
	var st unix.Stat_t
	if err := unix.Stat(s.Path, &st); err != nil {
		t.Fatal(err)
	}
	c := completer{mounts: watchMounts(0)}
	defer c.mounts.close()
	m := procmap.Mapping{Name: s.Path, Inode: st.Ino, Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}}
	c.complete(os.Getpid(), &m, perf.Now(0)+tracefs.Time(time.Second))
	if !m.BuildID.IsZero() || len(c.known) != 0 {
		t.Errorf("%+v", m)
	}
}
