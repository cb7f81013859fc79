package watch

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// inNamespace runs the test again in user and mount namespaces of its own,
// whose limits and mounts others do not feel. It returns whether this is that
// run.
func inNamespace(t *testing.T) bool {
	t.Helper()
	const inside = "USTACK_TEST_USERNS"
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.As(err, new(*exec.ExitError)):
		t.Errorf("in a user namespace:\n%s", out)
	case err != nil || !strings.Contains(string(out), "PASS: "+t.Name()):
		skip(t, "no user namespace, or it may not do what the test needs: %v: %s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// skip skips a live test, unless it must run here.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// TestWatchesRunOut: the kernel has no watches left.
func TestWatchesRunOut(t *testing.T) {
	const limit = "/proc/sys/user/max_inotify_watches"
	if !inNamespace(t) {
		return
	}
	// One is the pipe of our own.
	if os.WriteFile(limit, []byte("2"), 0o644) != nil {
		t.Skip("the limit cannot be changed")
	}
	f := newFixture(t, Options{})
	first, second := file(t, t.TempDir()+"/x", "x"), file(t, t.TempDir()+"/x", "x")
	if !f.Watch(os.Getpid(), first) || f.Watch(os.Getpid(), second) || f.Watch(os.Getpid(), second) {
		t.Error("watched although there is no room, or not watched although there is")
	}
	if len(f.messages) != 1 || !strings.Contains(f.messages[0], "fs.inotify.max_user_watches") {
		t.Errorf("messages: %q", f.messages)
	}
	t.Log(f.messages)
	if s := f.Stats(); s.Refused[Full] != 2 {
		t.Errorf("%+v", s)
	}
	os.Remove(first.Name)
	f.Drain()
	if !f.Watch(os.Getpid(), second) {
		t.Error("not watched although there is room again")
	}
}

// TestOtherMounts: what happens to a file that is mounted over another one
// happens elsewhere, and a file system that is unmounted takes its files along.
// The next one can have the same device and inode numbers.
func TestOtherMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := t.TempDir()
	over, disk := dir+"/over", dir+"/disk"
	file(t, over, "x")
	file(t, dir+"/real", "y")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(source, target, kind string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, ""); err != nil {
			t.Skipf("mounting: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	}
	mount(dir+"/real", over, "", unix.MS_BIND)
	f := newFixture(t, Options{})
	m := mappingOf(t, over)
	if f.Watch(os.Getpid(), m) || f.Stats().Refused[Linked] != 1 {
		t.Errorf("a file that is mounted there is watched: %+v", f.Stats())
	}
	mount("none", disk, "tmpfs", 0)
	first := file(t, disk+"/lib.so", "x")
	if !f.Watch(os.Getpid(), first) {
		t.Fatal("not watched")
	}
	f.Drain()
	if len(f.forgot) != 0 {
		t.Errorf("forgotten: %v", f.forgot)
	}
	if err := unix.Unmount(disk, 0); err != nil {
		t.Fatal(err)
	}
	mount("none", disk, "tmpfs", 0)
	second := file(t, disk+"/lib.so", "y")
	t.Logf("device and inode %v, then %v", id(first), id(second))
	f.Drain()
	if s := f.Stats(); f.forgot[id(first)] != 1 || s.Files != 0 || s.Dirs != 0 {
		t.Errorf("unmounted: forgotten %v, %+v", f.forgot, s)
	}
	if !f.Watch(os.Getpid(), second) {
		t.Error("the new file system is not watched")
	}
	os.Remove(second.Name)
	f.Drain()
	if s := f.Stats(); f.forgot[id(second)] == 0 || s.Files != 0 {
		t.Errorf("deleted on the new file system: forgotten %v, %+v", f.forgot, s)
	}
}

// TestRemote: a file of a file system that can change without this kernel is not
// watched. Proc is not in the list of local file systems.
func TestRemote(t *testing.T) {
	f := newFixture(t, Options{})
	var st unix.Stat_t
	if err := unix.Stat("/proc/version", &st); err != nil {
		t.Skip(err)
	}
	m := procmap.Mapping{Name: "/proc/version", Inode: st.Ino, Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}}
	if f.Watch(os.Getpid(), &m) || f.Stats().Refused[Remote] != 1 {
		t.Errorf("watched: %+v", f.Stats())
	}
}
