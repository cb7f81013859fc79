//go:build !device

package main

import (
	"errors"
	"io"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/completion"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/front"
	"ustack/tracefs/instance"
)

// completionCommand is the subcommand.
func completionCommand(args []string, std command.Streams) error {
	var to destination.Flags
	fs := command.NewFlags("completion")
	to.RegisterFile(fs)
	if err := command.ParseOperands(fs, args, help.Usage("completion"), std.Out); err != nil {
		return command.UsageError(err)
	}
	if fs.NArg() != 1 {
		return command.UsageError(errors.New("name one shell: " + strings.Join(completion.Shells(), ", ")))
	}
	script, err := completion.Script(fs.Arg(0))
	if err != nil {
		return command.UsageError(err)
	}
	return to.Stream(std.Out, func(w io.Writer) error {
		_, err := io.WriteString(w, script)
		return err
	})
}

// completeCommand is what the scripts call: with the line up to the cursor, and the
// characters at which the shell breaks words.
func completeCommand(args []string, std command.Streams) error {
	if len(args) != 2 {
		return command.UsageError(errors.New("this is for the scripts of ustack completion"))
	}
	c := completion.Completer{Commands: commands(), Front: front.Command, Proc: "/proc", Events: func() ([]instance.Event, error) {
		root, err := instance.Find("")
		if err != nil {
			return nil, err
		}
		return root.Events()
	}}
	for _, t := range help.Topics() {
		c.Topics = append(c.Topics, t.Name)
	}
	return completion.Write(std.Out, c.Line(args[0], args[1]))
}
