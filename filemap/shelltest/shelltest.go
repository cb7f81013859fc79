// Package shelltest has processes for tests: shells that have begun, and wait for a line.
package shelltest

import (
	"io"
	"os/exec"
	"testing"
)

// Shell is a shell that waits.
type Shell struct {
	PID int
	cmd *exec.Cmd
	in  io.WriteCloser
}

// Start starts a shell that has "x" read before it runs a script, and ends it with the test.
func Start(t testing.TB, script string, args ...string) *Shell {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", "echo ready; read x; " + script, "sh"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Shell{cmd.Process.Pid, cmd, in}
	t.Cleanup(func() { _ = s.End() })
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return s
}

// End has the script run, and returns how it ended. It may be called again.
func (s *Shell) End() error {
	if s.in == nil {
		return nil
	}
	_, err := io.WriteString(s.in, "\n")
	_ = s.in.Close()
	s.in = nil
	if werr := s.cmd.Wait(); err == nil {
		err = werr
	}
	return err
}
