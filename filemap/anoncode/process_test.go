//go:build linux

package anoncode

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/tracefs"
)

// cannot skips a live test, or fails it where it must not be skipped.
func cannot(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// start starts a program that ends when its input does, and lets it become
// older than what is written from now on.
func start(t *testing.T, cmd *exec.Cmd) (end func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		cannot(t, "%v: %v", cmd.Args, err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	time.Sleep(5 * time.Duration(tick))
	return end
}

func newProcesses(t *testing.T, same func(Program) bool) *Processes {
	t.Helper()
	ps, err := NewProcesses("", same)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func always(Program) bool { return true }

// now is the name that the map of a program has for an address now.
func (ps *Processes) string(p Program, addr uint64) string {
	m := ps.find(p, clock(unix.CLOCK_MONOTONIC))
	if m == nil {
		return "none"
	}
	return m.stringAt(addr, true, clock(unix.CLOCK_MONOTONIC))
}

// TestProcesses: what a program has written to its map by a time is known, by
// whatever way the map came to have it; and a map of another program is not used.
func TestProcesses(t *testing.T) {
	cmd := exec.Command("cat")
	end := start(t, cmd)
	pid := cmd.Process.Pid
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	defer os.Remove(name)
	same := true
	ps := newProcesses(t, func(Program) bool { return same })
	p := Program{PID: pid, Began: 1}
	expect := func(what, want string) {
		t.Helper()
		if got := ps.string(p, 0x1010); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("no map", "none")
	write(t, name, "1000 100 one\n1000 100 tw")
	expect("written", "one+0x10")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "o\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	expect("appended", "two+0x10")
	write(t, name, "1010 100 three, which is long enough to be longer\n")
	expect("written anew", "three, which is long enough to be longer+0x0")
	end256 := strings.Repeat("9000 10 the same end\n", 20)
	write(t, name, "1000 100 four\n"+end256)
	expect("written anew, longer", "four+0x10")
	write(t, name, "1000 100 five\n"+end256+"a000 10 more\n")
	expect("written anew with the same end, and more", "five+0x10")
	write(t, name+".new", "1000 100 four\n")
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	expect("replaced", "four+0x10")
	if m := ps.find(p, ps.slots[pid].life.began-1); m != nil {
		t.Error("known before the process began")
	}
	same = false
	if got := ps.string(p, 0x1010); got != "none" {
		t.Errorf("of the program before, after what was read: %s", got)
	}
	if got := ps.string(Program{PID: pid, Began: 2}, 0x1010); got != "none" {
		t.Errorf("of a program that is another one by now: %s", got)
	}
	same = true
	late := Program{PID: pid, Began: clock(unix.CLOCK_MONOTONIC), Exact: true}
	if got := ps.string(late, 0x1010); got != "none" {
		t.Errorf("of a program that has begun since: %s", got)
	}
	expect("of the one that was there", "four+0x10")
	if err := os.Rename(name, name+".away"); err != nil {
		t.Fatal(err)
	}
	expect("taken away, with what was written last", "none")
	if err := os.Rename(name+".away", name); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	expect("older than the process", "none")
	if err := os.Chtimes(name, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	expect("of another process, from before the clock was set back", "none")
	write(t, name, "1000 100 five\n")
	expect("written once more", "five+0x10")
	end()
	expect("the process has ended", "five+0x10")
	write(t, name, "1000 100 five\n1000 100 six\n")
	same = false
	expect("the process has ended, and another one has its number", "none")
	same = true
	expect("the process has ended, and wrote more before", "six+0x10")
	if got := ps.string(Program{PID: pid, Began: 3}, 0x1010); got != "none" {
		t.Errorf("never read before it ended: %s", got)
	}
}

// TestProcessesOwner: a map of another user's is not used, but root's is.
func TestProcessesOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		cannot(t, "files of others need root")
	}
	const overflow, other = 65534, 12345
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: overflow, Gid: overflow}}
	start(t, cmd)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/", cmd.Process.Pid)); err != nil {
		cannot(t, "the root directory of another user's process needs CAP_SYS_PTRACE: %v", err)
	}
	name := fmt.Sprintf("/tmp/perf-%d.map", cmd.Process.Pid)
	defer os.Remove(name)
	write(t, name, "1000 100 one\n")
	for uid, want := range map[int]string{0: "one+0x1", overflow: "one+0x1", other: "none"} {
		if err := os.Chown(name, uid, 0); err != nil {
			t.Fatal(err)
		}
		ps := newProcesses(t, always)
		if got := ps.string(Program{PID: cmd.Process.Pid}, 0x1001); got != want {
			t.Errorf("of user %d: %s, want %s", uid, got, want)
		}
	}
}

// TestProcessesElsewhere: if a process has another root directory and another PID
// there, its map is in that directory and has that PID, and no symbolic link leads
// out of it.
func TestProcessesElsewhere(t *testing.T) {
	root, number := t.TempDir(), freeNumber(t)
	source := filepath.Join(t.TempDir(), "wait.c")
	write(t, source, "#include <stdio.h>\nint main(void) { return getchar() == EOF; }\n")
	if out, err := exec.Command("gcc", "-static", "-o", filepath.Join(root, "wait"), source).CombinedOutput(); err != nil {
		cannot(t, "the program cannot be built: %v\n%s", err, out)
	}
	pid, name := runInNamespace(t, number, "", `chroot "$0" /wait`, root), mapName(number)
	outside := t.TempDir()
	write(t, filepath.Join(outside, name), "1000 100 outside\n")
	for _, c := range []struct {
		what string
		make func() error
		want string
	}{
		{"nothing", func() error { return nil }, "none"},
		{"a link out of it", func() error { return os.Symlink(outside, filepath.Join(root, "tmp")) }, "none"},
		{"a link in it", func() error {
			return os.Symlink("var", filepath.Join(root, "tmp"))
		}, "inside+0x1"},
		{"a directory", func() error { return os.Rename(filepath.Join(root, "var"), filepath.Join(root, "tmp")) }, "inside+0x1"},
	} {
		_ = os.Remove(filepath.Join(root, "tmp"))
		_ = os.Mkdir(filepath.Join(root, "var"), 0o700)
		if _, err := os.Stat(filepath.Join(root, "var", name)); err != nil {
			write(t, filepath.Join(root, "var", name), "1000 100 inside\n")
		}
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		if got := newProcesses(t, always).string(Program{PID: pid}, 0x1001); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestParseStatus(t *testing.T) {
	for _, c := range []struct {
		text string
		want status
		ok   bool
	}{
		{"Name:\tx\nUid:\t1\t2\t3\t4\nNStgid:\t70\t8\t1\n", status{2, 70, 1, 3}, true},
		{"Name:\tx\nUid:\t1\t2\t3\t4\nNStgid:\t70\n", status{2, 70, 70, 1}, true},
		{"Name:\tUid: 5 6\nNStgid:\t70\n", status{}, false},
		{"Uid:\t1\t2\n", status{}, false},
		{"Uid:\t1\t-2\nNStgid:\t70\n", status{}, false},
		{"Uid:\t1\t2\nNStgid:\t99999999999\n", status{}, false},
		{"", status{}, false},
	} {
		st, ok := parseStatus([]byte(c.text))
		if ok != c.ok || ok && st != c.want {
			t.Errorf("%q: %v, %v", c.text, st, ok)
		}
	}
}

// TestClocks: the time since boot by which processes begin is that of the clock.
func TestClocks(t *testing.T) {
	ps := newProcesses(t, always)
	before := clock(unix.CLOCK_MONOTONIC)
	cmd := exec.Command("cat")
	start(t, cmd)
	ps.string(Program{PID: cmd.Process.Pid}, 0)
	began := ps.slots[cmd.Process.Pid].life.began
	if began < before-tick || began > clock(unix.CLOCK_MONOTONIC)-tracefs.Time(4*tick) {
		t.Errorf("began at %d, and was started after %d", began, before)
	}
}

// TestSilentServer: a process whose /tmp is of a server that gives no answer has no
// map, and blocks no reader.
func TestSilentServer(t *testing.T) {
	s := fusetest.Start(t, []byte("a file"))
	proc, pid := t.TempDir(), os.Getpid()
	if err := os.Mkdir(filepath.Join(proc, strconv.Itoa(pid)), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stat", "status"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(proc, strconv.Itoa(pid), name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	if err := os.Symlink(root, filepath.Join(proc, strconv.Itoa(pid), "root")); err != nil {
		t.Fatal(err)
	}
	ps, err := NewProcesses("", always)
	if err != nil {
		t.Fatal(err)
	}
	ps.proc = proc
	ps.calls = bounded.New(10 * time.Millisecond)
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(s.Dir, filepath.Join(root, "tmp"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting: %v", err)
	}
	defer unix.Unmount(filepath.Join(root, "tmp"), unix.MNT_DETACH)
	s.Silence()
	for s.Asked() == 0 { // on a busy machine what comes before that may take longer, too
		if got := ps.string(Program{PID: pid}, 0x1000); got != "none" {
			t.Fatalf("%q, asked %d times", got, s.Asked())
		}
		time.Sleep(time.Millisecond)
	}
}

// TestNoPoll: a map's server is not asked whether the file is ready (see
// openfile.AsFile).
func TestNoPoll(t *testing.T) {
	s := fusetest.Start(t, []byte("1000 100 function\n"))
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	m := new(mapFile)
	if err := m.update(root, fusetest.Name, func(fs.FileInfo) error { return nil }); err != nil || m.perf == nil || m.read == 0 {
		t.Errorf("%d bytes are read, %v", m.read, err)
	}
	if n := s.Polled(); n > 0 {
		t.Errorf("asked %d times", n)
	}
}
