//go:build linux

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/instance"
)

// topLevel is what of the top level must never change.
func topLevel(t *testing.T) string {
	t.Helper()
	root, err := instance.Find("")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range []string{"trace", "tracing_on", "events/enable", "set_event_pid", "trace_clock", "trace_options", "buffer_size_kb", "current_tracer"} {
		text, err := os.ReadFile(filepath.Join(root.Path(), name))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(name + "\n")
		all.Write(text)
	}
	return all.String()
}

// cleanAfter removes the instance of a process that was killed. A child that has not
// executed its program yet holds the lock of that process for a moment.
func cleanAfter(t *testing.T, bin string, pid int) {
	t.Helper()
	eventually(t, "ustack clean removes the instance", func() bool {
		out, err := exec.Command(bin, "clean").CombinedOutput()
		if err != nil {
			t.Fatalf("ustack clean: %v\n%s", err, out)
		}
		return len(instancesOf(t, pid)) == 0
	})
}

// TestLiveKilled: however live ends, and whenever, it leaves nothing, and what it
// traced runs on.
func TestLiveKilled(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	before := topLevel(t)
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 20
	if capturetest.Brief() {
		rounds = 8
	}
	for round := range rounds {
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}[round%4]
		if signal.Ignored(sig) {
			continue // by nohup (see TestLiveNohup), or by a shell in the background: it may come before live listens
		}
		args := []string{"live", "-q", "--", work, "sleeper", "1"}
		if round%3 == 0 {
			args = []string{"live", "-q"} // all processes
		}
		cmd := exec.Command(bin, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the command gets no signal of ours
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		time.Sleep(time.Duration(rng.IntN(250)) * time.Millisecond)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: it does not end after %v", round, sig)
		}
		if sig == syscall.SIGKILL {
			cleanAfter(t, bin, cmd.Process.Pid)
		} else if noInstance(t, cmd.Process.Pid); t.Failed() {
			t.Fatalf("round %d, %v", round, sig)
		}
	}
	if after := topLevel(t); after != before {
		t.Errorf("the top level has changed\nfrom %s\nto %s", before, after)
	}
}

// TestLiveTwice: a second signal ends live at once, while it still drains.
func TestLiveTwice(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	r, w, err := os.Pipe() // not read: what is written does not go away
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(ustackBinary(t), "live", "-q", "-e", "sched:sched_switch")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	traces(t, cmd)
	time.Sleep(time.Second)
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatal("it does not end")
	}
	if code := cmd.ProcessState.ExitCode(); code != signalBase+int(syscall.SIGINT) {
		t.Errorf("exit code %d", code)
	}
	noInstance(t, cmd.Process.Pid)
}

// TestLiveBrokenPipe: the reader of the output goes away.
func TestLiveBrokenPipe(t *testing.T) {
	needLive(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(ustackBinary(t), "live", "-q", "-e", "sched:sched_switch")
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v\n%s", err, &stderr)
	}
	noInstance(t, cmd.Process.Pid)
}

// TestLiveOutlived: the command runs on when live is killed, and untraced.
func TestLiveOutlived(t *testing.T) {
	_, work := workload(t)
	bin := ustackBinary(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(bin, "live", "-q", "--", "sh", "-c", "echo $$ >"+pidFile+"; exec \"$0\" sleeper 1; echo never", work)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	eventually(t, "the command begins", func() bool {
		text, _ := os.ReadFile(pidFile)
		pid, _ = strconv.Atoi(string(bytes.TrimSpace(text)))
		return pid > 0
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	cleanAfter(t, bin, cmd.Process.Pid)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the command has ended: %v", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}
