// Package command runs the commands of a program: their flags, their help, and how
// they end.
//
// A command returns an error and does not end the program itself, but for a second
// Ctrl-C while it traces. The meaning of an error for the user is decided here, the
// same for all commands: a request for help is success, wrong arguments are a usage
// error, a reader that has left ends a stream, an ExitCode is an exit code without a
// message, and everything else is a failure with a message on standard error.
// Messages never send control characters to a terminal.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ustack/render"
	"ustack/tracefs/instance"
	"ustack/tracefs/privilege"
)

// Exit codes of all commands.
const (
	OK      = 0
	Failure = 1
	Usage   = 2
)

// Streams are the standard streams of a command, as the program got them.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Messages returns standard error for messages: with control characters as escapes if
// it is a terminal.
func (s Streams) Messages() io.Writer { return render.Output(s.Err) }

// Command is one command of the program.
type Command struct {
	Name    string
	Summary string
	// Privileged is set if the command may need rights that its user does not have.
	Privileged bool
	// Stream is set if the output is a stream, whose reader may leave early: EPIPE
	// (man 2 write) is success. Without it the output counts as a whole.
	Stream bool
	// Run parses the arguments and runs the command.
	Run func(args []string, std Streams) error
}

// Main runs the command and returns its exit code. It prints the error, if there is one.
func (c *Command) Main(args []string, std Streams) int {
	err := c.Run(args, std)
	var code ExitCode
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return OK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		c.complain(std, usage.error)
		return Usage
	case c.Stream && errors.Is(err, unix.EPIPE):
		return OK
	}
	c.complain(std, err)
	return Failure
}

// complain prints each of the errors that an error joins as a separate message.
func (c *Command) complain(std Streams, err error) {
	for _, one := range joined(err) {
		fmt.Fprintf(std.Messages(), "ustack %s: %v\n", c.Name, one)
		if refused := (*instance.HelpError)(nil); errors.As(one, &refused) && errors.Is(one, unix.EACCES) && os.Geteuid() != 0 {
			fmt.Fprintf(std.Messages(), "ustack %s: %s\n", c.Name, rights())
		}
	}
}

// rights says how to get those that tracing needs, which are root's alone.
func rights() string {
	program, err := os.Executable()
	if err != nil || !privilege.Advised().Attainable() {
		return "run it with sudo"
	}
	return "run it with sudo, or once, for members of the group " + privilege.Group + ": " + privilege.Install(program)
}

// joined returns the errors that errors.Join has joined, or the error itself.
func joined(err error) []error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	if all := errors.Join(list.Unwrap()...); all == nil || all.Error() != err.Error() {
		return []error{err} // of fmt.Errorf, with more words
	}
	var all []error
	for _, one := range list.Unwrap() {
		all = append(all, joined(one)...)
	}
	return all
}

// ExitCode is the error of a command that has printed what there is to say.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Exit returns the error for an exit code, nil for OK.
func Exit(code int) error {
	if code == OK {
		return nil
	}
	return ExitCode(code)
}

// usageError is an error of the arguments.
type usageError struct{ error }

// Unwrap returns the error of the arguments.
func (e *usageError) Unwrap() error { return e.error }

// UsageError returns an error of the arguments as one that ends the program with
// Usage. A nil error stays nil, and a request for help one.
func UsageError(err error) error {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &usageError{err}
}
