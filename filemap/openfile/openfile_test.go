package openfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got is what a file has, or the error of opening it.
func got(f *os.File, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 100))
	return string(b), err
}

// tree makes a directory with files of all kinds, and links among them.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	check(t, errors.Join(os.MkdirAll(at("usr/lib/deep"), 0o755), os.WriteFile(at("usr/lib/lib.so"), []byte("code"), 0o644),
		os.Symlink("usr/lib", at("lib")), os.Symlink("lib.so", at("usr/lib/near")), os.Symlink("../../../usr/lib/deep/../lib.so", at("usr/lib/deep/far")),
		os.Symlink("../lib/near", at("usr/chain")), os.Symlink("loop", at("loop")), os.Symlink("missing", at("dangling")),
		os.Symlink("/etc/passwd", at("absolute")), os.Symlink("../../../../../../../../etc/passwd", at("out")), os.Symlink("/etc", at("etc")),
		os.Symlink("/proc/self/exe", at("magic")), os.Symlink("/proc/version", at("proc-file")), os.Symlink("/proc", at("proc-link")),
		unix.Mkfifo(at("pipe"), 0o600)))
	return dir
}

// TestRegular: regular files are opened, in directories and by links.
func TestRegular(t *testing.T) {
	dir := tree(t)
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	for _, name := range []string{"usr/lib/lib.so", "lib/lib.so", "usr/lib/near", "lib/near", "usr/lib/deep/far", "usr/chain", "usr//lib/./lib.so", "usr/lib/../lib/lib.so"} {
		for how, open := range map[string]func() (*os.File, error){
			"Named": func() (*os.File, error) { return Named(dir + "/" + name) },
			"Path":  func() (*os.File, error) { return Path(dir + "/" + name) },
			"In":    func() (*os.File, error) { return In(root, "/"+name) },
		} {
			if text, err := got(open()); text != "code" {
				t.Errorf("%s %s: %q, %v", how, name, text, err)
			}
		}
	}
}

// TestNotOpened: only regular files of a file system are opened, by each of the
// ways to open one.
func TestNotOpened(t *testing.T) {
	dir := tree(t)
	for name, want := range map[string]error{
		"/proc/version": ErrKernel, "/proc/self/maps": ErrKernel, "/proc/self/exe": ErrKernel, "/proc/self/root/etc/passwd": ErrKernel,
		"/sys/kernel/tracing/trace_pipe": ErrKernel, "/sys/kernel/notes": ErrKernel, "/usr/../proc/version": ErrKernel, "//proc//version": ErrKernel,
		dir + "/proc-file": ErrKernel, dir + "/proc-link/version": ErrKernel, dir + "/magic": unix.ELOOP,
		dir + "/pipe": ErrIrregular, dir: ErrIrregular, "/dev/null": ErrIrregular, "/dev/zero": ErrIrregular,
		dir + "/dangling": fs.ErrNotExist, dir + "/loop": unix.ELOOP, dir + "/missing/x": fs.ErrNotExist,
	} {
		if text, err := got(Named(name)); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", name, text, err, want)
		}
	}
	for _, name := range []string{"/proc/version", "/sys/kernel/notes", dir + "/proc-link/version"} {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		if text, err := got(Path(name)); !errors.Is(err, ErrKernel) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if f, err := Path("/proc/self/exe"); err != nil { // a directory of the user's can be below /proc
		t.Error(err)
	} else {
		check(t, f.Close())
	}
}

// TestNotOpenedIn: the same below a directory, which nothing leads out of.
func TestNotOpenedIn(t *testing.T) {
	root, err := os.OpenRoot(tree(t))
	check(t, err)
	defer root.Close()
	for name, want := range map[string]error{
		"/pipe": ErrIrregular, "/": ErrIrregular, "usr/lib": ErrIrregular, "usr/lib/": ErrIrregular, "usr/..": ErrIrregular, "pipe/x": unix.ENOTDIR,
		"dangling": fs.ErrNotExist, "loop": unix.ELOOP, "absolute": errEscapes, "magic": errEscapes, "proc-file": errEscapes, "/proc/version": ErrKernel, "sys/x": ErrKernel,
	} {
		if text, err := got(In(root, name)); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", name, text, err, want)
		}
	}
	for _, name := range []string{"out", "etc/passwd", "../../etc/passwd", "usr/../../etc/passwd", "proc-link/version"} {
		if text, err := got(In(root, name)); err == nil {
			t.Errorf("%s: %q", name, text)
		}
	}
	// A proc file system somewhere else.
	proc, err := os.OpenRoot("/proc")
	check(t, err)
	defer proc.Close()
	if text, err := got(In(proc, "/version")); !errors.Is(err, ErrKernel) {
		t.Errorf("version of /proc: %q, %v", text, err)
	}
}

// TestPipeNotOpened: not even for a moment.
func TestPipeNotOpened(t *testing.T) {
	dir := tree(t)
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	opened := make(chan error, 1)
	go func() { // a writer waits for a reader
		f, err := os.OpenFile(dir+"/pipe", os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	for range 1000 {
		_, err := Named(dir + "/pipe")
		_, inErr := In(root, "pipe")
		_, below := In(root, "pipe/x")
		if err == nil || inErr == nil || below == nil {
			t.Fatal("it was opened")
		}
	}
	select {
	case <-opened:
		t.Error("the writer got a reader")
	case <-time.After(10 * time.Millisecond): // that it waits proves nothing by itself; the loop had its time
	}
	f, err := os.OpenFile(dir+"/pipe", os.O_RDONLY, 0)
	check(t, errors.Join(err, <-opened, f.Close()))
}
