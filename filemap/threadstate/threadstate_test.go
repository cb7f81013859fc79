package threadstate

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/filemap/procmap"
)

// names are some system calls.
func names(nr int32) string {
	return map[int32]string{1: "write", 232: "epoll_wait"}[nr]
}

// TestDoing reads each form of the file syscall.
func TestDoing(t *testing.T) {
	for text, want := range map[string]string{
		"running\n": Running,
		"232 0x4 0x7ffd 0x20 0x1388 0x0 0x0 0x7ffd00 0x401000\n": "epoll_wait",
		"7777 0x0 0x0 0x0 0x0 0x0 0x0 0x1 0x2\n":                 "system call 7777",
		"-1 0x7ffd00 0x401000\n":                                 Exception,
		"":                                                       Unknown,
		"99999999999 0x1":                                        Unknown,
		"x\x1b[31m":                                              Unknown,
	} {
		if got := doing([]byte(text), names); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// fields are those of stat after the state.
var fields = strings.Repeat(" 1", 30) + "\n"

// reader returns a Reader of a directory.
func reader(t *testing.T, proc string, call func(int32) string) Reader {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{Proc: proc, Source: procmap.Text})
	if err != nil {
		t.Fatal(err)
	}
	return Reader{Processes: r, Call: call}
}

// process writes the files of a process with these threads: state, and text of syscall.
func process(t *testing.T, proc string, pid int, auxv string, threads ...[2]string) {
	t.Helper()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "stat"), strconv.Itoa(pid)+" (a) R (b) "+threads[0][0]+fields)
	put(filepath.Join(dir, "auxv"), auxv)
	for i, th := range threads {
		task := filepath.Join(dir, "task", strconv.Itoa(pid+i))
		put(filepath.Join(task, "stat"), "1 (x) "+th[0]+fields)
		put(filepath.Join(task, "syscall"), th[1])
	}
}

// TestRead counts the threads of made processes.
func TestRead(t *testing.T) {
	proc := t.TempDir()
	wait := [2]string{"S", "232 0x4"}
	auxv64 := string(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 6), 4096))
	auxv32 := string(binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, 6), 4096))
	process(t, proc, 10, auxv64, [2]string{"S", "1 0x1"}, wait, wait, [2]string{"R", "running"}, [2]string{"T", "232 0x4"}, [2]string{"Z", ""})
	process(t, proc, 20, auxv32, wait)
	process(t, proc, 30, auxv64, [2]string{"Z", ""})
	r := reader(t, proc, names)
	p, err := r.Read(10)
	if err != nil || p.Name != "a) R (b" || p.Threads != 5 {
		t.Fatal(p, err)
	}
	want := []Count{{"epoll_wait", 2}, {Running, 1}, {Stopped, 1}, {"write", 1}}
	if len(p.Do) != len(want) {
		t.Fatal(p.Do)
	}
	for i := range want {
		if p.Do[i] != want[i] {
			t.Error(p.Do[i], "want", want[i])
		}
	}
	// The call has another number in a 32-bit program.
	if p, err := r.Read(20); err != nil || p.Do[0].What != "system call 232" {
		t.Error(p, err)
	}
	for _, pid := range []int{30, 40} {
		if _, err := r.Read(pid); !errors.Is(err, ErrEnded) {
			t.Error(pid, err)
		}
	}
}

// TestNarrow: a call by int $0x80, or by code that cannot be read, has another number than its name.
func TestNarrow(t *testing.T) {
	proc := t.TempDir()
	auxv := string(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 6), 4096))
	r := reader(t, proc, names)
	r.Code = func(_ int, addr uint64, b []byte) error {
		switch addr {
		case 0x4ffe:
			copy(b, "\x0f\x05")
		case 0x5ffe:
			copy(b, "\xcd\x80")
		default:
			return errors.New("no memory")
		}
		return nil
	}
	for pc, want := range map[string]string{"0x5000": "epoll_wait", "0x6000": "system call 232", "0x7000": "system call 232", "0x1": "system call 232", "x": "system call 232"} {
		process(t, proc, 50, auxv, [2]string{"S", "232 0x4 0x7ffd 0x20 0x1388 0x0 0x0 0x7ffd00 " + pc})
		if p, err := r.Read(50); err != nil || p.Do[0].What != want {
			t.Errorf("at %s: %v, %v", pc, p, err)
		}
	}
}

// TestReadProgram reads a program that waits for its input, if the kernel shows that.
func TestReadProgram(t *testing.T) {
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Skip("cat: ", err)
	}
	pid := cat.Process.Pid
	r := reader(t, "/proc", func(int32) string { return "read" })
	var p *Process
	for range 1000 { // until it waits
		if p, err = r.Read(pid); err != nil || p.Name == "cat" && p.Do[0].What == "read" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	in.Close()
	werr := cat.Wait()
	if err != nil || werr != nil || p.Threads != 1 {
		t.Fatal(p, err, werr)
	}
	switch what := p.Do[0].What; what {
	case "read":
	case Unknown:
		t.Skip("/proc/PID/syscall cannot be read here")
	default:
		t.Errorf("cat: %s", what)
	}
	if _, err := r.Read(pid); !errors.Is(err, ErrEnded) {
		t.Error("after its end:", err)
	}
}

// TestHeldExec: a process that is kept in the middle of an exec by a file system in user
// space keeps nothing waiting.
func TestHeldExec(t *testing.T) {
	h := fusetest.StartHeld(t)
	r := reader(t, "/proc", names)
	h.Hold(t)
	h.Within(t, 20*bounded.DefaultWait, func() {
		if p, err := r.Read(h.PID); err == nil && (len(p.Do) != 1 || p.Do[0].What != Unknown) {
			t.Errorf("it does %+v", p)
		}
	})
}
