// Command ustack-query answers queries about the tables of a saved trace: it is what
// "ustack query" and "ustack mcp" run.
//
// It is a module of its own, since its database costs more to compile than all of ustack,
// and so that what is needed for it is no part of what ustack needs.
package main

import (
	"os"
	"runtime/debug"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
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
	return companion.Run("ustack-query", commands(), args, std)
}
