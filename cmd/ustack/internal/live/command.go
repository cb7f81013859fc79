package live

import "io"

// Command is a command that runs for an engine beside Run. It is held at the first instruction
// of its program until Release.
type Command struct{ c *child }

// StartCommand starts a command and holds it.
func StartCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) (*Command, error) {
	c, err := startChild(args, stdin, stdout, stderr)
	if err != nil {
		return nil, err
	}
	return &Command{c}, nil
}

// PID returns its process.
func (c *Command) PID() int { return c.c.pid() }

// Release lets it run. Kill ends it instead.
func (c *Command) Release() error { return c.c.release() }

// Kill ends a command that has not been released.
func (c *Command) Kill() { c.c.kill() }

// Done is closed when it has ended, after Release. ExitCode is then its exit code as a shell
// reports it.
func (c *Command) Done() <-chan struct{} { return c.c.done }

// ExitCode returns the exit code of the command, which has ended.
func (c *Command) ExitCode() int { return c.c.exitCode() }
