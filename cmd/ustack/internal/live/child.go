package live

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/signals"
)

// child is the command of "live -- CMD". It is held at its first instruction
// until all is ready to trace it, and is on its own from then on: it runs on
// if we die.
type child struct {
	cmd    *exec.Cmd
	orders chan func() // for the thread that may give it orders
	done   chan struct{}
	err    error // of its end
}

// startChild starts a command and holds it at the first instruction of its
// program: ptrace(2) stops a child that asked to be traced when execve(2) has
// succeeded.
func startChild(args []string, stdin io.Reader, stdout, stderr io.Writer) (*child, error) {
	c := &child{cmd: exec.Command(args[0], args[1:]...), orders: make(chan func()), done: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	started := make(chan error)
	go c.master(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	return c, nil
}

// master is the thread that made the child: ptrace takes orders from it alone.
func (c *child) master(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	if err == nil {
		var status unix.WaitStatus
		_, err = unix.Wait4(c.cmd.Process.Pid, &status, 0, nil)
		if err == nil && !status.Stopped() {
			err = errors.New("it ended before its first instruction")
		}
	}
	started <- err
	if err != nil {
		return
	}
	for order := range c.orders {
		order()
	}
}

// pid returns the child's PID.
func (c *child) pid() int { return c.cmd.Process.Pid }

// release continues the child.
func (c *child) release() error {
	result := make(chan error)
	c.orders <- func() { result <- unix.PtraceDetach(c.pid()) }
	close(c.orders)
	c.orders = nil
	if err := <-result; err != nil {
		return fmt.Errorf("letting %s run: %w", c.cmd.Path, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return nil
}

// kill ends a child that was never released.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	if c.orders != nil { // else it was to be released, and had ended
		close(c.orders)
	}
	_ = c.cmd.Wait()
}

// exitCode returns the exit code of the child, which has ended, as a shell
// reports it.
func (c *child) exitCode() int {
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		if c.err != nil {
			return 1
		}
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signals.Base + int(status.Signal())
	}
	return exit.ExitCode()
}

// ended reports whether the child has ended, or does so within a time.
func (c *child) ended(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.done:
		return true
	case <-late.C:
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
