package sideband

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	filewatch "ustack/filemap/watch"
	"ustack/tracefs"
)

// watchingBand opens a side band that watches the files it knows for writes. It skips
// the test where the kernel reports no build IDs.
func watchingBand(t *testing.T) *Band {
	t.Helper()
	return watchingWith(t, Options{})
}

// watchingWith is watchingBand with more options.
func watchingWith(t *testing.T, opt Options) *Band {
	t.Helper()
	opt.Written = new(Written)
	watcher := filewatch.New(filewatch.Options{Forget: opt.Written.Changed})
	opt.Watcher = watcher
	b, _ := openBand(t, opt)
	// A file that a busy machine has no time to look at is not checked.
	b.completer.calls = bounded.New(time.Minute)
	t.Cleanup(func() { // before the side band is closed
		if err := watcher.Close(); err != nil {
			t.Error(err)
		}
	})
	if !b.BuildIDs() {
		skip(t, "the kernel reports no build IDs")
	}
	return b
}

// mapCode maps the first page of a file as code.
func mapCode(t *testing.T, path string) (addr uint64, unmap func()) {
	t.Helper()
	mem := mapPage(t, path)
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}
}

// passCoarse waits until changes before and after it have different times in the
// file system, whose clock advances by ticks.
func passCoarse(b *Band) {
	for from := b.Now(); b.Now() < from+tracefs.Time(3*coarse); {
	}
}

// TestWritten: a file that is written in place while it is mapped loses its build
// ID from then on; one that another file takes the place of keeps it.
func TestWritten(t *testing.T) {
	b := watchingBand(t)
	library, dir := mappedLibrary(t), t.TempDir()
	id := buildID(t, library)
	for name, change := range map[string]func(path string) error{
		"written": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 64), page)
			return errors.Join(err, f.Close())
		},
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("new"), 0o755), os.Rename(path+".new", path))
		},
		"deleted": os.Remove,
	} {
		path := filepath.Join(dir, name)
		copyFile(t, library, path)
		old := unix.NsecToTimeval(1e9)
		if err := unix.Utimes(path, []unix.Timeval{old, old}); err != nil {
			t.Fatal(err)
		}
		passCoarse(b) // so that it was not written after it was mapped
		addr, unmap := mapCode(t, path)
		drain(t, b)
		before := b.Now()
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		drain(t, b)
		after := b.Now()
		if p, ok := b.History.Lookup(os.Getpid(), addr, before); !ok || p.Late || name != "written" && p.Mapping.File.BuildID != id {
			t.Errorf("%s: before, it is in %+v", name, p)
		}
		p, ok := b.History.Lookup(os.Getpid(), addr, after)
		if !ok || p.Mapping.File.Name != path || p.Mapping.File.BuildID.IsZero() != (name == "written") {
			t.Errorf("%s: it is in %+v, %v", name, p, ok)
		}
		unmap()
	}
}

// TestReplacedBefore: a file that another one has replaced before the mapping was
// heard of keeps its build ID.
func TestReplacedBefore(t *testing.T) {
	b := watchingBand(t)
	library := mappedLibrary(t)
	id := buildID(t, library)
	path := filepath.Join(t.TempDir(), "replaced")
	copyFile(t, library, path)
	if f, ok := statIn(os.Getpid(), path); !ok || f.born.IsZero() {
		t.Skip("the file system of temporary files has no birth times")
	}
	addr, unmap := mapCode(t, path)
	defer unmap()
	passCoarse(b)
	if err := errors.Join(os.WriteFile(path+".new", []byte("new"), 0o755), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	drain(t, b)
	if p, ok := b.History.Lookup(os.Getpid(), addr, b.Now()); !ok || p.Mapping.File.Name != path || p.Mapping.File.BuildID != id {
		t.Errorf("it is in %+v, %v", p, ok)
	}
}

// TestWrittenTwin: of two files with one path and one build ID, one after the other,
// the second one is watched, too.
func TestWrittenTwin(t *testing.T) {
	b := watchingBand(t)
	library, path := mappedLibrary(t), filepath.Join(t.TempDir(), "library")
	copyFile(t, library, path)
	copyFile(t, library, path+".new")
	passCoarse(b) // so that it was not written after it was mapped
	_, unmap := mapCode(t, path)
	defer unmap()
	drain(t, b)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	addr, unmap := mapCode(t, path) // before the side band knows
	defer unmap()
	passCoarse(b)
	drain(t, b)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteAt(make([]byte, 64), page); err != nil {
		t.Fatal(err)
	}
	f.Close()
	drain(t, b)
	if p, ok := b.History.Lookup(os.Getpid(), addr, b.Now()); !ok || !p.Mapping.File.BuildID.IsZero() {
		t.Errorf("the second file was written, and is %+v, %v", p.Mapping, ok)
	}
}

// endingWatcher ends a process once its file is watched.
type endingWatcher struct {
	FileWatcher
	pid   int
	end   func()
	ended bool
}

func (w *endingWatcher) Watch(pid int, m *procmap.Mapping) bool {
	ok := w.FileWatcher.Watch(pid, m)
	if pid == w.pid && !w.ended {
		w.ended = true
		w.end()
	}
	return ok
}

// codeOf waits until a process runs a program, and returns the address of its code.
func codeOf(t *testing.T, pid int, program string) uint64 {
	t.Helper()
	for from := time.Now(); time.Since(from) < 10*time.Second; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var addr uint64
			if strings.HasSuffix(line, " "+program+"\n") && strings.Contains(line, " r-xp ") {
				if _, err := fmt.Sscanf(line, "%x-", &addr); err != nil {
					t.Fatal(err)
				}
				return addr
			}
		}
	}
	t.Fatalf("process %d does not run %s", pid, program)
	return 0
}

// TestWatchedEnds: a process that ends while its file is being watched keeps the file's
// build ID.
func TestWatchedEnds(t *testing.T) {
	b := watchingBand(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skipf("sleep is needed: %v", err)
	}
	if buildID(t, sleep).IsZero() {
		t.Skip("a program with a build ID is needed")
	}
	program := filepath.Join(t.TempDir(), "program")
	copyFile(t, sleep, program)
	passCoarse(b)
	cmd := exec.Command(program, "1000")
	cmd.Args[0] = "sleep" // as coreutils may be one program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr := codeOf(t, cmd.Process.Pid, program)
	at := b.Now()
	w := &endingWatcher{FileWatcher: b.files.watcher, pid: cmd.Process.Pid, end: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}}
	b.files.watcher = w
	drain(t, b)
	drain(t, b)
	if !w.ended {
		t.Fatal("the file was not watched")
	}
	if p, ok := b.History.Lookup(cmd.Process.Pid, addr, at); !ok || p.Mapping.File.Name != program || p.Mapping.File.BuildID.IsZero() {
		t.Errorf("the code is in %+v, %v", p.Mapping, ok)
	}
}
