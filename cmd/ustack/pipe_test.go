//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMessagesWithoutReader: a command that traces ends with its exit code if standard
// error is a pipe that is not read any more, not by a signal.
func TestMessagesWithoutReader(t *testing.T) {
	for _, args := range [][]string{{"live"}, {"record", "-o", os.DevNull}, {"futex", "--live"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := exec.Command(ustackBinary(t), append(args, "--tracefs", "/nowhere")...)
		cmd.Stderr = w
		_ = cmd.Run() // the exit code is checked
		w.Close()
		if code, status := cmd.ProcessState.ExitCode(), cmd.ProcessState.Sys().(syscall.WaitStatus); code != exitFailure {
			t.Errorf("%q: exit code %d, %v", args, code, status.Signal())
		}
	}
}

// TestRedactHelpFirst: a key is not read for a user who asks for help.
func TestRedactHelpFirst(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := unix.Mkfifo(key, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		done <- run([]string{"redact", "--redact-key", key, "--help"}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	select {
	case code := <-done:
		if code != exitOK {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the key")
	}
}
