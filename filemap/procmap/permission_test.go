package procmap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// otherUser is a user without rights whose only processes are ours: others that
// come and go would be counted too.
func otherUser() uint32 { return 20_000 + uint32(os.Getpid())%40_000 }

// readAsOther is the helper that reads all processes and prints the counts.
// Then it looks at one it may not read.
func readAsOther(pid string) error {
	for _, stat := range []bool{true, false} {
		r, err := NewReader(Options{Filter: Filter{Perms: Exec}, Stat: stat})
		if err != nil {
			return err
		}
		held := 0 // in the middle of execve(2), where it waits for a CPU
		c, err := r.Walk(nil, func(_ *Process, err error) error {
			if errors.Is(err, errHeld) {
				held++
			}
			return nil
		})
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		var p Process
		err = r.Process(n, &p)
		refused := errors.Is(err, fs.ErrPermission) && strings.Contains(err.Error(), "CAP_SYS_PTRACE")
		fmt.Printf("processes=%d denied=%d nomemory=%d gone=%d failed=%d capable=%v hidden=%v refused=%v\n", c.Processes, c.Denied,
			c.NoMemory, c.Gone, c.Failed-held, CanTrace(), r.Hidden(), refused)
	}
	return nil
}

// asStranger runs the helper as another user and returns what it prints.
func asStranger(t *testing.T, pid int) []string {
	t.Helper()
	attr := new(syscall.SysProcAttr)
	attr.Credential = &syscall.Credential{Uid: otherUser(), Gid: otherUser()}
	// The test program may be in a directory that the other user cannot enter.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", strconv.Itoa(pid))
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = []string{helperMode + "=read"}
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[:len(lines)-1] // "ready"
}

// TestOtherUser: what may not be read is counted, the rest is read, and kernel
// threads are not taken for something one may not read.
func TestOtherUser(t *testing.T) {
	needRoot(t)
	victim := startHelper(t, "libraries")
	for _, line := range asStranger(t, victim.pid) {
		var processes, denied, noMemory, gone, failed int
		var capable, hidden, refused bool
		if _, err := fmt.Sscanf(line, "processes=%d denied=%d nomemory=%d gone=%d failed=%d capable=%t hidden=%t refused=%t",
			&processes, &denied, &noMemory, &gone, &failed, &capable, &hidden, &refused); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if processes < 1 || denied < 1 || failed > 0 || capable || hidden || !refused {
			t.Errorf("as another user: %s", line)
		}
		if s, err := os.ReadFile("/proc/2/stat"); err == nil && strings.Contains(string(s), "kthreadd") && noMemory < 1 {
			t.Errorf("no kernel thread was recognised: %s", line)
		}
	}
}

// TestHidepid: under hidepid we see ourselves, and say that others may be
// missing.
func TestHidepid(t *testing.T) {
	needRoot(t)
	var lines []string
	inOwnMounts(t, func() error {
		if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"); err != nil {
			return err
		}
		lines = asStranger(t, 1)
		return nil
	})
	if len(lines) != 2 {
		t.Errorf("with hidepid=2: %q", lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "processes=1 denied=0 nomemory=0 gone=0 failed=0 ") || !strings.Contains(line, "hidden=true") {
			t.Errorf("with hidepid=2: %s", line)
		}
	}
}

// inOwnMounts runs f in a thread with a mount namespace of its own, which ends
// with it. The test is skipped if f fails.
func inOwnMounts(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is not used again
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skipf("a mount namespace of its own needs CAP_SYS_ADMIN: %v", err)
	}
}
