//go:build linux

package owner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/filemap/procmap"
)

// cannot skips a live test, or fails it where it must not be skipped.
func cannot(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// held is a lock of the program.
type held struct {
	kind          string
	addr          uint64
	owner, waiter int // as the program sees them
}

// run runs the program, in a PID namespace of its own or not.
func run(t *testing.T, namespace bool) (pid int, locks []held) {
	t.Helper()
	if os.Geteuid() != 0 {
		cannot(t, "reading the memory of other processes needs root")
	}
	bin := filepath.Join(t.TempDir(), "held")
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", bin, "testdata/held.c").CombinedOutput(); err != nil {
		cannot(t, "the program cannot be built: %v\n%s", err, out)
	}
	cmd := exec.Command(bin)
	if namespace {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		cannot(t, "%v", err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "done"; {
		var l held
		if _, err := fmt.Sscanf(lines.Text(), "%s %v %d %d", &l.kind, &l.addr, &l.owner, &l.waiter); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		locks = append(locks, l)
	}
	return cmd.Process.Pid, locks
}

func newReader(t *testing.T) *Reader {
	t.Helper()
	maps, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := procmap.NewReader(procmap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return NewReader(maps, all)
}

// TestRead: Read returns the threads that hold locks of all kinds, whatever their
// numbers in the PID namespace of the program, and no owner for other memory.
func TestRead(t *testing.T) {
	want := map[string]any{
		"plain": Glibc, "recursive": Glibc, "errorcheck": Glibc, "adaptive": Glibc, "shared": Glibc, "robust": Glibc,
		"shared-memory": errShared, "robust-memory": errShared, "pi": PI,
		"word": errNoLock, "foreign": errNoThread, "seven": errNoLock,
	}
	for _, namespace := range []bool{false, true} {
		pid, locks := run(t, namespace)
		if len(locks) != len(want) {
			t.Fatalf("%d locks: %v", len(locks), locks)
		}
		r := newReader(t)
		if namespace && (locks[0].owner != 1 || pid == 1) {
			t.Fatalf("the program is %d in its own PID namespace", locks[0].owner)
		}
		for _, l := range locks {
			if l.kind == "foreign" && namespace {
				continue // there, 1 is the program itself
			}
			waiter, err := r.thread(pid, l.waiter)
			if err != nil {
				t.Fatalf("%s: the waiter: %v", l.kind, err)
			}
			o, err := asleep(r, pid, waiter, l.addr)
			switch w := want[l.kind].(type) {
			case How:
				if err != nil || o != (Owner{TID: pid, How: w}) {
					t.Errorf("%s (namespace %v): %+v, %v, want %d", l.kind, namespace, o, err, pid)
				}
			case error:
				if !errors.Is(err, w) || o != (Owner{}) {
					t.Errorf("%s (namespace %v): %+v, %v, want %v", l.kind, namespace, o, err, w)
				}
			}
			if _, err := r.Read(pid, pid, l.addr); !errors.Is(err, errMoved) {
				t.Errorf("%s: a thread that does not wait there: %v", l.kind, err)
			}
			if _, err := r.Read(pid, waiter, l.addr+64); !errors.Is(err, errMoved) {
				t.Errorf("%s: a lock without waiters: %v", l.kind, err)
			}
		}
	}
}

// asleep reads the owner once the waiter waits.
func asleep(r *Reader, pid, waiter int, addr uint64) (o Owner, err error) {
	const patience = 20 * time.Second
	for from := time.Now(); time.Since(from) < patience; time.Sleep(time.Millisecond) {
		if o, err = r.Read(pid, waiter, addr); !errors.Is(err, errMoved) {
			break
		}
	}
	return o, err
}

// TestGone: of a process that has ended, there is no owner.
func TestGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if o, err := newReader(t).Read(cmd.Process.Pid, cmd.Process.Pid, 0x1000); !errors.Is(err, errMoved) {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestParseCall(t *testing.T) {
	const sleeping = "202 0x55d0 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f20\n"
	if c := parseCall(sleeping); c.number != 202 || !c.wants(2) || c.wants(3) || c.pi() || c.args[0] != 0x55d0 || c.sp != 0x7ffd10 || c.pc != 0x7f20 {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{"running\n", "-1 0x7ffd10 0x7f20\n", "", "x 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n", "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 z\n"} {
		if c := parseCall(text); c != (call{number: -1}) {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

// TestMutex: only memory that is exactly a mutex with waiters has an owner.
func TestMutex(t *testing.T) {
	good := mutex{lock: 2, owner: 77, users: 1}
	if n := good.glibc(); n != 77 {
		t.Errorf("owner %d", n)
	}
	for name, change := range map[string]func(*mutex){
		"not waited for": func(m *mutex) { m.lock = 1 }, "free": func(m *mutex) { m.lock = 0 }, "no users": func(m *mutex) { m.users = 0 },
		"too many users": func(m *mutex) { m.users = 1 << 30 }, "counted, not recursive": func(m *mutex) { m.count = 1 },
		"recursive, not counted": func(m *mutex) { m.kind = 1 }, "other bits": func(m *mutex) { m.kind = 0x10000 },
		"priority ceiling": func(m *mutex) { m.kind = 0x40 }, "a large number": func(m *mutex) { m.owner = 1 << 31 }, "no owner": func(m *mutex) { m.owner = 0 },
		"robust, another owner": func(m *mutex) { m.kind, m.lock = 0x10, 1<<31|78 },
	} {
		m := good
		if change(&m); m.glibc() != 0 {
			t.Errorf("%s: owner %d", name, m.glibc())
		}
	}
	for _, pi := range []struct {
		word uint32
		want int
	}{{0, 0}, {77, 77}, {1<<31 | 77, 77}, {1<<30 | 77, 0}} {
		if n := (&mutex{lock: pi.word}).pi(); n != pi.want {
			t.Errorf("word %#x: owner %d, want %d", pi.word, n, pi.want)
		}
	}
}

// FuzzCall: whatever the file says, it is parsed, or is no call.
func FuzzCall(f *testing.F) {
	f.Add("202 0x55d0 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f20\n")
	f.Add("running\n")
	f.Add("-1 0x7ffd10 0x7f20\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := parseCall(text)
		if c.number == -1 {
			return
		}
		again := fmt.Sprintf("%d %#x %#x %#x %#x %#x %#x %#x %#x", c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5], c.sp, c.pc)
		if parseCall(again) != c || len(strings.Fields(text)) != 9 {
			t.Errorf("%q is %+v", text, c)
		}
	})
}

// TestHeldExec: a process that is kept in the middle of an exec by a file system in user
// space keeps nothing waiting.
func TestHeldExec(t *testing.T) {
	h := fusetest.StartHeld(t)
	r := newReader(t)
	h.Hold(t)
	h.Within(t, 20*bounded.DefaultWait, func() {
		if _, err := r.Read(h.PID, h.PID, 0x1000); !errors.Is(err, bounded.ErrSlow) {
			t.Errorf("the owner: %v", err)
		}
	})
}
