package watch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// fixture is a Watcher with a list of what it forgot.
type fixture struct {
	*Watcher
	forgot   map[procmap.FileID]int
	messages []string
}

func newFixture(t *testing.T, opt Options) *fixture {
	t.Helper()
	f := &fixture{forgot: map[procmap.FileID]int{}}
	opt.Forget = func(id procmap.FileID) { f.forgot[id]++ }
	opt.Log = func(m string) { f.messages = append(f.messages, m) }
	f.Watcher = New(opt)
	if f.fd < 0 {
		t.Skipf("no inotify: %v", f.messages)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// file makes a file and returns what a mapping of it would be.
func file(t *testing.T, name, content string) *procmap.Mapping {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return mappingOf(t, name)
}

func mappingOf(t *testing.T, name string) *procmap.Mapping {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return &procmap.Mapping{Name: name, Inode: st.Ino, Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}}
}

func id(m *procmap.Mapping) procmap.FileID { return procmap.FileID{Dev: m.Dev, Inode: m.Inode} }

// TestEvents: whatever makes a name another file, or a file other bytes, is
// seen; what does neither is not.
func TestEvents(t *testing.T) {
	self := os.Getpid()
	for what, test := range map[string]struct {
		do   func(dir, name string) error
		seen bool
	}{
		"deleted":         {func(dir, name string) error { return os.Remove(name) }, true},
		"renamed":         {func(dir, name string) error { return os.Rename(name, dir+"/other") }, true},
		"renamed over":    {func(dir, name string) error { return os.Rename(dir+"/beside", name) }, true},
		"written":         {func(dir, name string) error { return os.WriteFile(name, []byte("new"), 0o644) }, true},
		"directory gone":  {func(dir, name string) error { return os.RemoveAll(dir) }, true},
		"moved elsewhere": {func(dir, name string) error { return os.Rename(name, filepath.Dir(dir)+"/away") }, true},
		"read":            {func(dir, name string) error { _, err := os.ReadFile(name); return err }, false},
		"another written": {func(dir, name string) error { return os.WriteFile(dir+"/beside", []byte("new"), 0o644) }, false},
		"another made":    {func(dir, name string) error { return os.WriteFile(dir+"/third", []byte("new"), 0o644) }, false},
		"linked":          {func(dir, name string) error { return os.Link(name, dir+"/link") }, false},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t, Options{})
			dir := filepath.Join(t.TempDir(), "lib")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			name := dir + "/libx.so"
			m := file(t, name, "x")
			file(t, dir+"/beside", "y")
			for range 3 {
				if !f.Watch(self, m) {
					t.Fatal("not watched")
				}
			}
			if s := f.Stats(); s.Dirs != 1 || s.Files != 1 {
				t.Errorf("watching a file three times: %+v", s)
			}
			f.Drain()
			if len(f.forgot) > 0 {
				t.Errorf("forgotten before anything happened: %v", f.forgot)
			}
			if err := test.do(dir, name); err != nil {
				t.Fatal(err)
			}
			f.Drain() // no waiting: the events are there
			want := 0
			if test.seen {
				want = 1
			}
			if f.forgot[id(m)] != want || len(f.forgot) != want {
				t.Errorf("forgotten: %v, want the file %d times", f.forgot, want)
			}
			f.Drain()
			if f.forgot[id(m)] != want {
				t.Errorf("forgotten again: %v", f.forgot)
			}
			if s := f.Stats(); test.seen && (s.Dirs != 0 || s.Files != 0) {
				t.Errorf("still watched: %+v", s)
			}
		})
	}
}

// TestCoalesced: many events of a file are one.
func TestCoalesced(t *testing.T) {
	f := newFixture(t, Options{})
	dir := t.TempDir()
	m, other := file(t, dir+"/a", "x"), file(t, dir+"/b", "x")
	if !f.Watch(os.Getpid(), m) || !f.Watch(os.Getpid(), other) {
		t.Fatal("not watched")
	}
	for i := range 1000 {
		file(t, dir+"/a", fmt.Sprint(i))
		file(t, dir+"/c", fmt.Sprint(i))
	}
	f.Drain()
	if f.forgot[id(m)] != 1 || len(f.forgot) != 1 {
		t.Errorf("forgotten: %v", f.forgot)
	}
}

// TestRefused: what cannot be watched is not.
func TestRefused(t *testing.T) {
	f := newFixture(t, Options{})
	dir := t.TempDir()
	m := file(t, dir+"/a", "x")
	for what, edit := range map[string]func(m *procmap.Mapping){
		"another inode":  func(m *procmap.Mapping) { m.Inode++ },
		"another device": func(m *procmap.Mapping) { m.Dev.Minor++ },
		"deleted":        func(m *procmap.Mapping) { m.Kind = procmap.Deleted },
		"memfd":          func(m *procmap.Mapping) { m.Kind, m.Name = procmap.Memfd, "/memfd:x (deleted)" },
		"no name":        func(m *procmap.Mapping) { m.Name = "" },
		"no path":        func(m *procmap.Mapping) { m.Name = "anon_inode:[x]" },
		"no file":        func(m *procmap.Mapping) { m.Name = dir + "/b" },
		"no directory":   func(m *procmap.Mapping) { m.Name = dir + "/a/b" },
		"no process":     nil,
	} {
		changed, pid := *m, os.Getpid()
		if edit != nil {
			edit(&changed)
		} else {
			pid = 1 << 30
		}
		if f.Watch(pid, &changed) {
			t.Errorf("%s: watched", what)
		}
	}
	if s := f.Stats(); s.Dirs != 0 || s.Files != 0 || s.Refused != 5 {
		t.Errorf("%+v", s)
	}
	if len(f.messages) > 0 {
		t.Errorf("these are nothing to tell of: %q", f.messages)
	}
}

// TestBounds: with no room left files are not watched, and that is said once.
func TestBounds(t *testing.T) {
	for what, opt := range map[string]Options{"directories": {MaxDirs: 2}, "files": {MaxFiles: 2}} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t, opt)
			var files []*procmap.Mapping
			for i := range 5 {
				dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				m := file(t, dir+"/x", "x")
				files = append(files, m)
				if got := f.Watch(os.Getpid(), m); got != (i < 2) {
					t.Errorf("file %d: %v", i, got)
				}
			}
			if len(f.messages) != 1 || !strings.Contains(f.messages[0], "build IDs") {
				t.Errorf("messages: %q", f.messages)
			}
			os.Remove(files[0].Name)
			f.Drain()
			if !f.Watch(os.Getpid(), files[4]) {
				t.Error("not watched although there is room again")
			}
		})
	}
}

// TestWatchesRunOut: the kernel has no watches left. It runs in a user
// namespace, which has a limit of its own that others do not feel.
func TestWatchesRunOut(t *testing.T) {
	const inside = "USTACK_TEST_USERNS"
	const limit = "/proc/sys/user/max_inotify_watches"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestWatchesRunOut$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		switch {
		case errors.As(err, new(*exec.ExitError)):
			t.Errorf("in a user namespace:\n%s", out)
		case err != nil || !strings.Contains(string(out), "PASS: TestWatchesRunOut"):
			t.Skipf("no user namespace, or its limit cannot be set: %v: %s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	if os.WriteFile(limit, []byte("1"), 0o644) != nil {
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
	os.Remove(first.Name)
	f.Drain()
	if !f.Watch(os.Getpid(), second) {
		t.Error("not watched although there is room again")
	}
}

// TestOverflow: when the kernel drops events, all is forgotten.
func TestOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	limit, cerr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || cerr != nil || limit > 50_000 {
		t.Skipf("the kernel queues %s events", text)
	}
	f := newFixture(t, Options{})
	dir := t.TempDir()
	m := file(t, dir+"/quiet", "x")
	if !f.Watch(os.Getpid(), m) {
		t.Fatal("not watched")
	}
	names := []string{dir + "/a", dir + "/b"} // in turn, or they are merged
	for i := range limit + 10 {
		fd, err := unix.Open(names[i%2], unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	f.Drain()
	if s := f.Stats(); s.Overflows != 1 || f.forgot[id(m)] != 1 || s.Files != 0 {
		t.Errorf("%+v, forgotten %v", s, f.forgot)
	}
}

// TestNoInotify: without inotify nothing is watched, and nothing breaks.
func TestNoInotify(t *testing.T) {
	f := newFixture(t, Options{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.Drain()
	if f.Watch(os.Getpid(), file(t, t.TempDir()+"/x", "x")) {
		t.Error("watched after Close")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestConcurrent: watching and draining from everywhere.
func TestConcurrent(t *testing.T) {
	ids := procmap.NewIDs(nil)
	w := New(Options{Forget: ids.Forget})
	defer w.Close()
	ids.SetGuard(w)
	dir := t.TempDir()
	var wg sync.WaitGroup
	end := time.Now().Add(300 * time.Millisecond)
	for g := range 4 {
		wg.Go(func() {
			name := fmt.Sprint(dir, "/", g)
			for time.Now().Before(end) {
				if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
					t.Error(err)
					return
				}
				w.Watch(os.Getpid(), mappingOf(t, name))
				w.Drain()
				os.Remove(name)
				w.Stats()
			}
		})
	}
	wg.Wait()
	w.Drain()
	if s := w.Stats(); s.Dirs != 0 || s.Files != 0 {
		t.Errorf("%+v", s)
	}
}
