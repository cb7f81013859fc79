package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs/capturetest"
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
	if f.in == nil {
		skip(t, "no inotify: %v", f.messages)
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
	capturetest.SkipShort(t)
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

// TestLinked: a file with two names can be written by the other one, of which
// the directory does not hear.
func TestLinked(t *testing.T) {
	f := newFixture(t, Options{})
	dir := t.TempDir()
	m := file(t, dir+"/a", "x")
	if err := os.Link(m.Name, dir+"/b"); err != nil {
		t.Skip(err)
	}
	if f.Watch(os.Getpid(), m) || f.Stats().Refused[Linked] != 1 {
		t.Errorf("watched: %+v", f.Stats())
	}
}

// TestNoisy: a directory in which much happens to other files is given up.
func TestNoisy(t *testing.T) {
	f := newFixture(t, Options{})
	dir := t.TempDir()
	m := file(t, dir+"/a", "x")
	if !f.Watch(os.Getpid(), m) {
		t.Fatal("not watched")
	}
	logs := [2]*os.File{}
	for i := range logs {
		var err error
		if logs[i], err = os.Create(fmt.Sprint(dir, "/log", i)); err != nil {
			t.Fatal(err)
		}
		defer logs[i].Close()
	}
	// In turn, or the kernel makes one event of them; and it drops some.
	for i := range 4 * maxNoise {
		logs[i%2].WriteString("x")
		if i%64 == 0 {
			f.Drain()
		}
	}
	if s := f.Stats(); f.forgot[id(m)] != 1 || s.Dirs != 0 || s.Overflows != 0 {
		t.Errorf("%+v, forgotten %v", s, f.forgot)
	}
	if f.Watch(os.Getpid(), m) || f.Stats().Refused[Noisy] != 1 {
		t.Errorf("watched again: %+v", f.Stats())
	}
}

// TestPathLeadsElsewhere: fsnotify names directories by their path, which is
// that of another one after a process has ended and its PID is used again.
func TestPathLeadsElsewhere(t *testing.T) {
	proc := t.TempDir()
	if err := os.Symlink("/proc/self", proc+"/self"); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, Options{Proc: proc})
	var files [2]*procmap.Mapping
	for i := range files {
		root := t.TempDir()
		files[i] = file(t, root+"/lib.so", "x")
		os.Mkdir(proc+"/100", 0o755)
		os.Remove(proc + "/100/root")
		if err := os.Symlink(root, proc+"/100/root"); err != nil {
			t.Fatal(err)
		}
		m := *files[i]
		m.Name = "/lib.so"
		if !f.Watch(100, &m) {
			t.Fatalf("not watched: %+v", f.Stats())
		}
	}
	if f.forgot[id(files[0])] != 1 {
		t.Errorf("the first file can no longer be watched, and is not forgotten: %v", f.forgot)
	}
	os.Remove(files[1].Name)
	f.Drain()
	if f.forgot[id(files[1])] != 1 {
		t.Errorf("the second file is not forgotten: %v", f.forgot)
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
	if s := f.Stats(); s.Dirs != 0 || s.Files != 0 || s.Refused != [Reasons]int64{NotThere: 5} {
		t.Errorf("%+v", s)
	}
	if len(f.messages) > 0 {
		t.Errorf("these should not be reported: %q", f.messages)
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
			if len(f.messages) != 1 || !strings.Contains(f.messages[0], "build IDs") || f.Stats().Refused[Full] != 3 {
				t.Errorf("messages: %q, %+v", f.messages, f.Stats())
			}
			os.Remove(files[0].Name)
			f.Drain()
			if !f.Watch(os.Getpid(), files[4]) {
				t.Error("not watched although there is room again")
			}
		})
	}
}

// TestOverflow: when events are lost, all is forgotten, and watching begins
// anew.
func TestOverflow(t *testing.T) {
	for what, lose := range map[string]func(f *fixture, dir string){
		"by the kernel": func(f *fixture, dir string) { f.in.fail(fsnotify.ErrEventOverflow) },
		"by us": func(f *fixture, dir string) {
			file(t, dir+"/0", "")
			for i := range maxPending + 10 {
				if err := os.Rename(fmt.Sprint(dir, "/", i), fmt.Sprint(dir, "/", i+1)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t, Options{})
			dir := t.TempDir()
			m := file(t, dir+"/quiet", "x")
			if !f.Watch(os.Getpid(), m) {
				t.Fatal("not watched")
			}
			lose(f, dir)
			f.Drain()
			if s := f.Stats(); s.Overflows != 1 || f.forgot[id(m)] != 1 || s.Files != 0 {
				t.Errorf("%+v, forgotten %v", s, f.forgot)
			}
			if !f.Watch(os.Getpid(), m) {
				t.Error("not watched again")
			}
			os.Remove(m.Name)
			f.Drain()
			if f.forgot[id(m)] != 2 {
				t.Errorf("deleted after a loss: forgotten %v", f.forgot)
			}
		})
	}
}

// TestNoInotify: without inotify nothing is watched, and nothing breaks. What was
// watched is forgotten: a change of it would not be reported.
func TestNoInotify(t *testing.T) {
	f := newFixture(t, Options{})
	m := file(t, t.TempDir()+"/x", "x")
	if !f.Watch(os.Getpid(), m) {
		t.Fatal("not watched")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.Drain()
	if f.forgot[id(m)] != 1 {
		t.Errorf("forgotten: %v", f.forgot)
	}
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
