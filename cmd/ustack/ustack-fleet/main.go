// Command ustack-fleet makes tables of the reports of many devices, and answers questions
// about them: it is what "ustack export", "ustack push", "ustack symbolize" and "ustack fleet"
// run.
//
// It is a module of its own, so that the recorder on a device, and what is needed to build
// it, have nothing of the engines that read such tables.
package main

import (
	"os"
	"runtime/debug"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
)

// memoryLimit makes the garbage collector work harder when memory gets scarce.
const memoryLimit = 192 << 20

func commands() []command.Command {
	return []command.Command{
		{Name: "export", Stream: true, Run: exportCommand},
		{Name: "push", Run: pushCommand},
		{Name: "watch", Run: watchCommand},
		{Name: "symbolize", Run: symbolizeCommand},
		{Name: "fleet", Stream: true, Run: fleetCommand},
	}
}

func main() {
	debug.SetMemoryLimit(memoryLimit)
	os.Exit(run(os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run is main with its surroundings as arguments.
func run(args []string, std command.Streams) int {
	return companion.Run("ustack-fleet", commands(), args, std)
}
