package main

import (
	"errors"
	"fmt"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/tracefs/nearest"
)

// helpCommand prints the list of commands and topics, a topic, or the flags of a
// command that has no topic of its name.
func helpCommand(args []string, std command.Streams) error {
	if len(args) == 0 {
		usage(std.Out)
		return nil
	}
	if args[0] == "--man" && len(args) == 2 {
		return writeManPages(args[1])
	}
	if len(args) > 1 {
		return command.UsageError(errors.New("one topic at a time"))
	}
	if topic, ok := help.Find(args[0]); ok {
		return destination.Page(topic.Text, std.Out)
	}
	var names []string
	for _, t := range help.Topics() {
		names = append(names, t.Name)
	}
	for _, c := range commands() {
		if c.Name == args[0] {
			return c.Run([]string{"--help"}, std)
		}
		names = append(names, c.Name)
	}
	text := fmt.Sprintf("unknown topic %.80q", args[0])
	return command.UsageError(errors.New(text + nearest.Meant(args[0], names) + "; ustack help lists all"))
}
