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
//	[flags] PID [flags]
//	[flags] NAME [flags]
//	[flags] -p PID [flags]
//	[flags] -- CMD ARGS...
//
// A NAME is that of a process that runs now. --no-symbols and --no-owners switch off.
func Args(args []string, proc string) ([]string, bool) {
	whole := []string{"--live", "--symbols", "--owners"}
	at, traced := operand(args)
	if at == len(args) || args[at] == "--" {
		return slices.Concat(whole, off(args)), traced || at < len(args)
	}
	named := args[at]
	if pid, err := strconv.Atoi(named); err != nil || pid <= 0 {
		if !pids.Exists(proc, named) {
			return nil, false
		}
		named = pids.Exact(named)
	}
	return slices.Concat(whole, off(args[:at]), []string{"-p", named}, off(args[at+1:])), true
}

// switches are the flags of "futex --live" that take no value, and those of Args.
var switches = []string{"blame", "impact", "json", "no-infer", "no-lines", "no-owners", "no-sched", "no-symbols", "open", "owners", "q", "symbols", "v"}

// operand returns where the first argument is that is neither a flag nor the value of one,
// which is "--" where there is one before it, and whether a flag before it names processes.
func operand(args []string) (at int, traced bool) {
	for at < len(args) && strings.HasPrefix(args[at], "-") && args[at] != "--" {
		name, _, whole := strings.Cut(strings.TrimPrefix(args[at][1:], "-"), "=")
		traced = traced || name == "p"
		if at++; !whole && !slices.Contains(switches, name) {
			at++ // its value
		}
	}
	return min(at, len(args)), traced
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
const Welcome = `ustack finds what the threads of a program wait for, and why:
  ustack PID                  who waits for which lock, until Ctrl-C
  ustack NAME --duration 10s  the same, for all processes with this name
  ustack -- CMD ARGS...       the same, for a program that it starts
  ustack top -p PID           the same, on a full screen
  ustack open FILE            the same, of a saved trace or recording
  ustack live -p PID          trace now, with files and offsets in the stacks
  ustack doctor               what works on this machine, and what would help

A first time: ustack help tutorial. All commands, and the manual: ustack help
`
