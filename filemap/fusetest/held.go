package fusetest

import (
	"bufio"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Held is a process that a server can keep in the middle of an exec: the shell closes
// its script then, which is the file of the server.
type Held struct {
	*Server
	PID int

	release func() error
}

// StartHeld starts a process until the test has ended.
func StartHeld(t testing.TB) *Held {
	t.Helper()
	s := start(t, &Server{file: []byte("echo ready\nread word\nexec true\n"), flush: true})
	cmd := exec.Command("sh", s.Path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no sh: %v", err)
	}
	h := &Held{Server: s, PID: cmd.Process.Pid, release: in.Close}
	t.Cleanup(func() {
		_ = unix.Unmount(s.Dir, unix.MNT_FORCE|unix.MNT_DETACH) // releases it, so that it can be killed
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the shell says %q", lines.Text())
	}
	return h
}

// Hold keeps the process in the middle of an exec from now on.
func (h *Held) Hold(t testing.TB) {
	t.Helper()
	h.Silence()
	if err := h.release(); err != nil {
		t.Fatal(err)
	}
	const wait = 10 * time.Second
	for end := time.Now().Add(wait); h.Asked() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Skip("the shell closes its script otherwise")
		}
	}
}

// Within reports an error if a function waits for the process, and releases it then.
func (h *Held) Within(t testing.TB, limit time.Duration, fn func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		_ = unix.Unmount(h.Dir, unix.MNT_FORCE|unix.MNT_DETACH)
		<-done
		t.Error("it waits for the process")
	}
}

// Release lets the process go on.
func (h *Held) Release() { _ = unix.Unmount(h.Dir, unix.MNT_FORCE|unix.MNT_DETACH) }
