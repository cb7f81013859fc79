//go:build !device

package openfile

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMapped: a file that another user can have put at its path is used if it is the one that was
// mapped, as long as no other one with its path and build ID was.
func TestMapped(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other, id = 65534, "ab12"
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o1777))
	name := filepath.Join(dir, "program")
	check(t, errors.Join(os.WriteFile(name, []byte("code"), 0o755), os.Chown(name, other, other)))
	o := NewOpener(0)
	defer o.Close()
	f, err := o.Named(name)
	check(t, err)
	defer f.Close()
	st := f.Info().Sys().(*syscall.Stat_t)
	is := Mapped{unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, time.Unix(st.Ctim.Unix())}
	before, after := is, is
	before.Inode++
	after.Changed = after.Changed.Add(1)
	for _, c := range []struct {
		what string
		note func(b *Begin)
		ok   bool
	}{
		{"nothing", func(b *Begin) {}, false},
		{"mapped", func(b *Begin) { b.Mapped(name, id, is); b.Settled(name, id) }, true},
		{"mapped twice", func(b *Begin) { b.Mapped(name, id, is); b.Settled(name, id); b.Mapped(name, id, is) }, true},
		{"just changed", func(b *Begin) { b.Mapped(name, id, is) }, false},
		{"another one", func(b *Begin) { b.Mapped(name, id, before); b.Settled(name, id) }, false},
		{"changed since", func(b *Begin) { b.Mapped(name, id, after); b.Settled(name, id) }, false},
		{"another one before", func(b *Begin) { b.Mapped(name, id, before); b.Mapped(name, id, is); b.Settled(name, id) }, false},
		{"another one, too", func(b *Begin) { b.Mapped(name, id, is); b.Settled(name, id); b.Mapped(name, id, before) }, false},
		{"perhaps another one", func(b *Begin) { b.Mapped(name, id, is); b.Settled(name, id); b.Unsure(name, id) }, false},
		{"perhaps another one before", func(b *Begin) { b.Unsure(name, id); b.Mapped(name, id, is); b.Settled(name, id) }, false},
		{"not sure yet", func(b *Begin) { b.Mapped(name, id, is); b.Open(name, id); b.Settled(name, id) }, false},
		{"sure", func(b *Begin) { b.Mapped(name, id, is); b.Open(name, id); b.Settled(name, id); b.Sure(name, id) }, true},
		{"of another path", func(b *Begin) { b.Mapped("/program", id, is); b.Settled("/program", id) }, false},
		{"of another build ID", func(b *Begin) { b.Mapped(name, "cd34", is); b.Settled(name, "cd34") }, false},
	} {
		b := BeginAt(time.Unix(0, 0)) // so it has changed since
		c.note(b)
		if err := o.CheckOwner(f, name, id, b); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrReplaceable) {
			t.Errorf("%s: %v", c.what, err)
		}
		if f.Doubted() {
			t.Errorf("%s: doubted", c.what)
		}
		if b.Unsure(name, id); c.ok && !f.Doubted() {
			t.Errorf("%s: not doubted after another one", c.what)
		}
		f.doubted = nil
	}
	b := BeginAt(time.Unix(0, 0))
	b.Mapped(name, id, is)
	b.Settled(name, id)
	check(t, os.Chmod(name, 0o777))
	shared, err := o.Named(name)
	check(t, err)
	defer shared.Close()
	now := shared.Info().Sys().(*syscall.Stat_t)
	b.Mapped(name, "all", Mapped{is.Major, is.Minor, is.Inode, time.Unix(now.Ctim.Unix())})
	b.Settled(name, "all")
	if err := o.CheckOwner(shared, name, "all", b); !errors.Is(err, ErrReplaceable) {
		t.Errorf("for all to write: %v", err)
	}
	if none := (*Begin)(nil); none.News() != 0 || b.News() == 0 {
		t.Errorf("news of %d and %d", none.News(), b.News())
	}
	for i := range maxMapped + 1 {
		b.Mapped(name, string(rune(i)), is)
	}
	b.Settled(name, "one too many")
	if err := o.CheckOwner(f, name, "one too many", b); !errors.Is(err, ErrReplaceable) {
		t.Errorf("one too many: %v", err)
	}
}

// TestStaysMapped: a file that has not changed since the trace began is used until another one with
// its path and build ID is mapped, or it is not sure that none is.
func TestStaysMapped(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	if !inOwnMounts(t) {
		return
	}
	const other, id = 65534, "ab12"
	o := NewOpener(0)
	defer o.Close()
	for _, c := range []struct {
		what        string
		note, later func(b *Begin, name string, is, another Mapped)
		ok, doubted bool
	}{
		{what: "nothing", ok: true},
		{what: "mapped", later: func(b *Begin, name string, is, _ Mapped) { b.Mapped(name, id, is) }, ok: true},
		{what: "another one before", note: func(b *Begin, name string, _, another Mapped) { b.Mapped(name, id, another) }},
		{what: "another one", later: func(b *Begin, name string, _, another Mapped) { b.Mapped(name, id, another) }, ok: true, doubted: true},
		{what: "another one, too", later: func(b *Begin, name string, is, another Mapped) { b.Mapped(name, id, is); b.Mapped(name, id, another) }, ok: true, doubted: true},
		{what: "another one of another path", later: func(b *Begin, _ string, _, another Mapped) { b.Mapped("/program", id, another) }, ok: true},
		{what: "perhaps another one", later: func(b *Begin, name string, _, _ Mapped) { b.Unsure(name, id) }, ok: true},
		{what: "perhaps another one at a path that has changed", later: func(b *Begin, name string, _, _ Mapped) {
			check(t, os.Chmod(filepath.Dir(name), 0o755))
			b.Unsure(name, id)
		}, ok: true, doubted: true},
		{what: "at a path that has changed", later: func(_ *Begin, name string, _, _ Mapped) { check(t, movedAway(name)) }, ok: true, doubted: true},
		{what: "at a path that has changed, and all mappings are noted", later: func(b *Begin, name string, _, _ Mapped) {
			b.Fed()
			check(t, movedAway(name))
		}, ok: true},
		{what: "at a path where others were mounted", later: func(_ *Begin, name string, _, _ Mapped) { mountedOver(t, name) }, ok: true, doubted: true},
		{what: "at a path where others were mounted before", note: func(_ *Begin, name string, _, _ Mapped) { mountedOver(t, name) }},
		{what: "at a path where others were mounted, and all mappings are noted", note: func(b *Begin, name string, _, _ Mapped) {
			mountedOver(t, name)
			b.Fed()
		}, ok: true},
		{what: "removed", later: func(_ *Begin, name string, _, _ Mapped) { check(t, os.Remove(name)) }, ok: true, doubted: true},
	} {
		dir := t.TempDir()
		check(t, os.Chmod(dir, 0o1777))
		name := filepath.Join(dir, "sub", "program")
		check(t, os.Mkdir(filepath.Dir(name), 0o700))
		check(t, errors.Join(os.WriteFile(name, []byte("code"), 0o755), os.Chown(name, other, other)))
		f, err := o.Named(name)
		check(t, err)
		is := mappedAs(f.Info().Sys().(*syscall.Stat_t))
		another := is
		another.Inode++
		time.Sleep(100 * time.Millisecond) // longer than a tick, and so below
		b := BeginAt(time.Now())
		if c.note != nil {
			c.note(b, name, is, another)
		}
		err = o.CheckOwner(f, name, id, b)
		if (err == nil) != c.ok || err == nil && f.Doubted() {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.later != nil {
			time.Sleep(100 * time.Millisecond)
			c.later(b, name, is, another)
		}
		if f.Doubted() != c.doubted {
			t.Errorf("%s: later doubted: %v", c.what, !c.doubted)
		}
		check(t, f.Close())
	}
}

// inOwnMounts reports whether a test runs where nothing but it mounts anything. If not, it runs there
// now, in another process.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	const there = "USTACK_OWN_MOUNTS"
	if os.Getenv(there) != "" {
		return true
	}
	var out []byte
	var err error
	// A directory that others remove is unmounted there, too, so one run of some proves it.
	for range 4 {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), there+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // and makes all mounts private
		if out, err = cmd.CombinedOutput(); err == nil || errors.Is(err, syscall.EPERM) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EPERM):
		t.Skipf("making a mount namespace: %v", err)
	case bytes.Contains(out, []byte("--- SKIP: "+t.Name())):
		t.Skipf("in a mount namespace: %s", out)
	case err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	}
	return false
}

// movedAway puts another directory with a file of the same name in the place of the directory of a
// file, which stays as it is.
func movedAway(name string) error {
	dir := filepath.Dir(name)
	return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700), os.WriteFile(name, []byte("else"), 0o755))
}

// mountedOver mounts a directory over that of a file for a moment.
func mountedOver(t *testing.T, name string) {
	t.Helper()
	dir := filepath.Dir(name)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting: %v", err)
	}
	check(t, unix.Unmount(dir, 0))
}
