//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/terminaltest"
)

// TestLiveTerminal: the command has the terminal for itself, and a Ctrl-C there
// ends it and live, with the exit code that shells give.
func TestLiveTerminal(t *testing.T) {
	needLive(t)
	person, tty := terminaltest.Open(t)
	const script = `test -t 0 && test -t 1 && test -t 2 && echo all three; echo go; exec sleep 60`
	cmd := exec.Command(ustackBinary(t), "live", "-o", os.DevNull, "--", "sh", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	var seen bytes.Buffer
	buf, pressed := make([]byte, 4096), false
	for {
		n, err := person.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			break // EIO: all who had the terminal have ended
		}
		if !pressed && strings.Contains(seen.String(), "go\r\n") {
			pressed = true
			const ctrlC = 3
			if _, err := person.Write([]byte{ctrlC}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != signalBase+int(syscall.SIGINT) {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"all three", "ustack: Linux ", " stacks, "} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("no %q on the terminal:\n%s", want, &seen)
		}
	}
	noInstance(t, cmd.Process.Pid)
}

// TestLiveNohup: neither live nor its command hears a SIGHUP that is ignored.
func TestLiveNohup(t *testing.T) {
	needLive(t)
	cmd := exec.Command("nohup", ustackBinary(t), "live", "-q", "-e", "syscalls:sys_enter_write", "-o", os.DevNull, "--", "sh", "-c", "echo go; read line; echo $line")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 3)
	if _, err := io.ReadFull(stdout, buf); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it would end now
	_, _ = io.WriteString(stdin, "still here\n")
	rest, _ := io.ReadAll(stdout)
	if err := cmd.Wait(); err != nil || string(rest) != "still here\n" {
		t.Errorf("%q, %v", rest, err)
	}
	noInstance(t, cmd.Process.Pid)
}
