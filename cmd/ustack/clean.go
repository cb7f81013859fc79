package main

import (
	"errors"
	"fmt"
	"io"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/render"
	"ustack/tracefs/instance"
)

// cleanCommand is the subcommand.
func cleanCommand(args []string, std command.Streams) error {
	fs := command.NewFlags("clean")
	dir := fs.String("tracefs", "", "`DIR` where tracefs is mounted (default: where it usually is)")
	if err := command.ParseOnly(fs, args, help.Usage("clean"), std.Out); err != nil {
		return command.UsageError(err)
	}
	return clean(*dir, render.Output(std.Out))
}

// clean removes what it may and prints the result for each instance. The error
// is what should have been removed and was not.
func clean(dir string, w io.Writer) error {
	root, err := instance.Find(dir)
	if err != nil {
		return err
	}
	cleaned, err := root.Clean()
	if err != nil {
		return err
	}
	var text []byte
	for _, name := range cleaned.Removed {
		text = fmt.Appendf(text, "removed %s\n", name)
	}
	for _, left := range cleaned.Left {
		if errors.Is(left.Err, instance.ErrAlive) {
			text = fmt.Appendf(text, "left %s: %v\n", left.Name, left.Err)
		}
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("writing the list of removed instances: %w", err)
	}
	return cleaned.Failed()
}
