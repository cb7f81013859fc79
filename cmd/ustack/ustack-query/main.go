// Command ustack-query answers queries about the tables of a saved trace: it is what
// "ustack query" and "ustack mcp" run.
//
// It is a module of its own, since its database costs more to compile than all of ustack,
// and so that what is needed for it is no part of what ustack needs.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"ustack/cmd/ustack/internal/command"
)

// memoryLimit makes the garbage collector work harder when memory gets scarce. The
// database has its own limit, see heapLimit.
const memoryLimit = 384 << 20

func commands() []command.Command {
	return []command.Command{
		{Name: "query", Stream: true, Run: queryCommand},
		{Name: "mcp", Run: mcpCommand},
	}
}

func main() {
	debug.SetMemoryLimit(memoryLimit)
	os.Exit(run(os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run is main with its surroundings as arguments.
func run(args []string, std command.Streams) int {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.Name == args[0] {
				return c.Main(args[1:], std)
			}
		}
		if args[0] == "--version" {
			fmt.Fprintln(std.Out, command.VersionLine())
			return command.OK
		}
	}
	fmt.Fprintln(std.Err, "ustack-query: this program is run by ustack query and ustack mcp")
	return command.Usage
}
