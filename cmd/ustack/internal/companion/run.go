package companion

import (
	"fmt"
	"strings"

	"ustack/cmd/ustack/internal/command"
)

// Run runs a command of a companion, whose name the first argument is, and returns the exit
// code.
func Run(program string, commands []command.Command, args []string, std command.Streams) int {
	if len(args) > 0 {
		for _, c := range commands {
			if c.Name == args[0] {
				return c.Main(args[1:], std)
			}
		}
		if args[0] == "--version" {
			fmt.Fprintln(std.Out, command.VersionLine())
			return command.OK
		}
	}
	var names []string
	for _, c := range commands {
		names = append(names, "ustack "+c.Name)
	}
	fmt.Fprintf(std.Err, "%s: this program is run by %s\n", program, strings.Join(names, " and "))
	return command.Usage
}
