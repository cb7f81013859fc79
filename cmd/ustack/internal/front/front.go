// Package front has the short form of the command line, for those who know the program
// that is slow and not yet the commands of ustack.
package front

import (
	"slices"
	"strconv"
	"strings"

	"ustack/cmd/ustack/internal/pids"
)

// Command is the name of the command that Args are of.
const Command = "futex"

// Args returns the arguments of Command that a short form stands for, with what makes its
// answer whole: names of functions, and owners of locks.
//
//	PID [flags]
//	NAME [flags]
//	[flags] -- CMD ARGS...
//
// A NAME is that of a process that runs now. --no-symbols and --no-owners switch off.
func Args(args []string, proc string) ([]string, bool) {
	if len(args) == 0 {
		return nil, false
	}
	whole := []string{"--live", "--symbols", "--owners"}
	first, rest := args[0], args[1:]
	switch pid, err := strconv.Atoi(first); {
	case err == nil && pid > 0:
		return slices.Concat(whole, []string{"-p", first}, off(rest)), true
	case strings.HasPrefix(first, "-"):
		return slices.Concat(whole, off(args)), slices.Contains(args, "--")
	case pids.Exists(proc, first):
		return slices.Concat(whole, []string{"-p", pids.Exact(first)}, off(rest)), true
	}
	return nil, false
}

// off writes the flags that switch off as package flag takes them. What follows "--"
// belongs to the command to run.
func off(flags []string) []string {
	flags = slices.Clone(flags)
	for i, arg := range flags {
		switch arg {
		case "--":
			return flags
		case "--no-symbols", "--no-owners":
			flags[i] = "--" + strings.TrimPrefix(arg, "--no-") + "=false"
		}
	}
	return flags
}

// Welcome is what to print where there are no arguments.
const Welcome = `ustack finds what the threads of a program wait for, and why.

  ustack PID                  who waits for which lock, until Ctrl-C
  ustack NAME --duration 10s  the same, for all processes with this name
  ustack -- CMD ARGS...       the same, for a program that it starts
  ustack open FILE            the same, of a saved trace or recording
  ustack replay FILE          files and offsets in the stacks of a saved trace
  ustack live -p PID          trace now, with files and offsets in the stacks
  ustack doctor               what works on this machine, and what would help

A first time: ustack help tutorial. All commands, and the manual: ustack help
`
