package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege/privilegetest"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const precious = "precious"

// victim is a file of which nothing may be changed.
func victim(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "victim")
	check(t, os.WriteFile(name, []byte(precious), 0o644))
	return name
}

func unharmed(t *testing.T, name string) {
	t.Helper()
	if b, err := os.ReadFile(name); string(b) != precious {
		t.Errorf("the victim is %q, %v", b, err)
	}
}

// both are the ways to create a file by its path.
var both = map[string]func(string) (*os.File, error){"Create": Create, "New": New}

// TestLinks: no symbolic link is followed, whatever it leads to.
func TestLinks(t *testing.T) {
	for name, create := range both {
		dir := t.TempDir()
		v := victim(t, dir)
		for i, to := range []string{v, "victim", filepath.Join(dir, "missing"), "/dev/null", "/dev/stdout", dir} {
			out := filepath.Join(dir, fmt.Sprint("out", i))
			check(t, os.Symlink(to, out))
			if _, err := create(out); !errors.Is(err, ErrLink) {
				t.Errorf("%s, a link to %s: %v", name, to, err)
			}
			if got, err := os.Readlink(out); got != to {
				t.Errorf("%s: the link leads to %q, %v", name, got, err)
			}
		}
		unharmed(t, v)
		if _, err := os.Lstat(filepath.Join(dir, "missing")); err == nil {
			t.Errorf("%s: a file was created through a link", name)
		}
	}
}

// TestNew: the file is new and private, whatever had its name, and whatever
// other names that has.
func TestNew(t *testing.T) {
	for name, create := range both {
		dir := t.TempDir()
		v := victim(t, dir)
		out := filepath.Join(dir, "out")
		check(t, os.Link(v, out))
		open, err := os.Open(out) // by a reader who was there first
		check(t, err)
		f, err := create(out)
		check(t, err)
		_, err = f.WriteString("new")
		check(t, errors.Join(err, f.Close()))
		unharmed(t, v)
		if old, err := io.ReadAll(open); string(old) != precious {
			t.Errorf("%s: the old file is %q, %v", name, old, err)
		}
		check(t, open.Close())
		info, err := os.Lstat(out)
		check(t, err)
		if b, err := os.ReadFile(out); info.Mode() != 0o600 || string(b) != "new" {
			t.Errorf("%s: %v, %q, %v", name, info.Mode(), b, err)
		}
	}
}

// TestNoFile: what is neither file nor pipe nor character device stays as it is.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	check(t, unix.Mknod(socket, unix.S_IFSOCK|0o600, 0)) // bind(2) takes short names only
	pipe := filepath.Join(dir, "pipe")
	check(t, unix.Mkfifo(pipe, 0o600))
	names := []string{dir, socket}
	if os.Geteuid() == 0 {
		block := filepath.Join(dir, "block")
		if err := unix.Mknod(block, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 255))); err == nil {
			names = append(names, block)
		}
	}
	for _, name := range names {
		if f, err := Create(name); err == nil || f != nil {
			t.Errorf("%s was opened", name)
		}
	}
	for _, name := range append(names, pipe) {
		if f, err := New(name); err == nil || f != nil {
			t.Errorf("%s was replaced", name)
		}
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestSpecial: pipes and character devices are written to and stay.
func TestSpecial(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "missing"), victim(t, t.TempDir())} {
		if f, err := Special(name); f != nil || err != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	check(t, unix.Mkfifo(pipe, 0o600))
	got := make(chan string)
	go func() {
		b, err := os.ReadFile(pipe)
		got <- fmt.Sprint(string(b), err)
	}()
	for _, name := range []string{pipe, os.DevNull} {
		f, err := Create(name)
		check(t, err)
		_, err = f.WriteString("text")
		check(t, errors.Join(err, f.Close()))
	}
	if text := <-got; text != "text<nil>" {
		t.Errorf("through the pipe: %s", text)
	}
	for name, kind := range map[string]fs.FileMode{pipe: fs.ModeNamedPipe, os.DevNull: fs.ModeDevice | fs.ModeCharDevice} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s is %v now, %v", name, info, err)
		}
	}
}

// TestPipeOfAnother: a pipe that another user has left in a shared directory is
// not opened, one of ours or of the directory's owner is.
func TestPipeOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a pipe of another user")
	}
	for _, c := range []struct {
		mode       fs.FileMode
		dir, owner int
		refused    bool
	}{
		{0o777 | fs.ModeSticky, 0, 65534, true},
		{0o777 | fs.ModeSticky, 0, 0, false},
		{0o777 | fs.ModeSticky, 65534, 65534, false},
		{0o755, 0, 65534, false},
	} {
		dir := t.TempDir()
		pipe := filepath.Join(dir, "pipe")
		check(t, unix.Mkfifo(pipe, 0o666))
		check(t, errors.Join(os.Chmod(dir, c.mode), os.Chown(dir, c.dir, c.dir), os.Lchown(pipe, c.owner, c.owner)))
		info, err := os.Lstat(pipe)
		check(t, err)
		if err := trustPipe(pipe, info); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if !c.refused {
			continue // opening it would wait for a reader
		}
		if f, err := Create(pipe); err == nil || f != nil {
			t.Errorf("%+v: opened", c)
		}
	}
}

// TestDescriptors: our own descriptors are written to. The files that they lead
// to are not replaced, nor their directory looked at.
func TestDescriptors(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "redirected"))
	check(t, err)
	defer file.Close()
	_, err = file.WriteString("before ")
	check(t, err)
	if f, err := Create(fmt.Sprintf("/dev/fd/%d", file.Fd())); err == nil {
		t.Errorf("a file that we have opened ourselves is %s", f.Name())
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETFD, 0) // as the shell gives it
	check(t, err)
	for _, dir := range []string{"/dev/fd", "/proc/self/fd", "/proc/self/../self/fd/."} {
		f, err := Create(fmt.Sprintf("%s/%d", dir, file.Fd()))
		check(t, err)
		_, err = f.WriteString(dir + " ")
		check(t, errors.Join(err, f.Close()))
	}
	info, err := os.Lstat(file.Name())
	check(t, err)
	if is, err := file.Stat(); err != nil || !os.SameFile(info, is) {
		t.Error("the file was replaced")
	}
	if b, err := os.ReadFile(file.Name()); string(b) != "before /dev/fd /proc/self/fd /proc/self/../self/fd/. " {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"/dev/fd/1000000", "/dev/fd/x", "/proc/self/fd/-1"} {
		if f, err := Create(name); err == nil {
			t.Errorf("%s is %v", name, f.Name())
		}
	}
	for name, fd := range map[string]int{"/dev/stdout": 1, "/dev/stderr": 2, "/dev//fd/7": 7} {
		if got, ok := descriptor(name); !ok || got != fd {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
}

// asOther runs the test again as another user, in dir; it returns whether this
// is that run.
func asOther(t *testing.T, dir string) bool {
	t.Helper()
	const inside = "USTACK_TEST_OTHER"
	if os.Getenv(inside) != "" {
		check(t, os.Chdir(os.Getenv(inside)))
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
		t.Errorf("as another user: %v\n%s", err, out)
	}
	return false
}

// TestFileOfAnother: a file that another user keeps in a shared directory is not
// written to, even if all may write to it: its owner would read what we write.
func TestFileOfAnother(t *testing.T) {
	dir := ""
	if os.Geteuid() == 0 {
		dir = t.TempDir()
		v := victim(t, dir)
		check(t, errors.Join(os.Chmod(v, 0o666), os.Chmod(dir, 0o777|fs.ModeSticky), os.Chmod(filepath.Dir(dir), 0o755)))
		privilegetest.Reachable(t, dir)
		defer unharmed(t, v)
	} else if os.Getenv("USTACK_TEST_OTHER") == "" {
		t.Skip("needs root, to become another user")
	}
	if !asOther(t, dir) {
		return
	}
	if f, err := Create("victim"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, %v", f, err)
	}
}

// TestDir: the directory is not followed, and is the same one until the end.
func TestDir(t *testing.T) {
	top := t.TempDir()
	elsewhere := filepath.Join(top, "elsewhere")
	check(t, os.Mkdir(elsewhere, 0o755))
	v := victim(t, elsewhere)
	link := filepath.Join(top, "link")
	check(t, os.Symlink("elsewhere", link))
	for _, name := range []string{link, link + "/", link + "/."} {
		if _, err := OpenDir(name); !errors.Is(err, ErrLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenDir(v); err == nil {
		t.Error("a file is a directory")
	}
	path := filepath.Join(top, "a", "b")
	d, err := OpenDir(path)
	check(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	check(t, os.Rename(path, filepath.Join(top, "moved")))
	check(t, os.Symlink(elsewhere, path))
	f, err := d.New("victim")
	check(t, errors.Join(err, f.Close(), d.Close()))
	unharmed(t, v)
	if _, err := os.Stat(filepath.Join(top, "moved", "victim")); err != nil {
		t.Error(err)
	}
}

// TestNext creates a file, and leaves all that is there.
func TestNext(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	f, err := Next(name)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Mode() != private {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := errors.Join(f.Close(), os.Symlink("none", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, there := range []string{name, filepath.Join(dir, "link"), dir} {
		if f, err := Next(there); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, %v", there, f, err)
		}
	}
}
