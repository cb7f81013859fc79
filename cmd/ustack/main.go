// Command ustack makes files of the user-space stacks in an ftrace: path,
// build ID and offset.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"ustack/cmd/ustack/help"
	"ustack/tracefs/privilege"
)

// Exit codes, the same for all commands.
const (
	exitOK         = 0
	exitFailure    = 1
	exitUsage      = 2
	exitLoss       = 3 // --fail-on-loss
	exitUnresolved = 4 // --max-unresolved
)

// command is one subcommand. Each has a file of its own.
type command struct {
	name    string
	summary string
	run     func(args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

func commands() []command {
	return []command{
		{"replay", "resolve the stacks in a saved trace", replay},
		{"live", "trace now, and resolve the stacks as they happen", live},
		{"record", "trace into a small file for another machine", recordCommand},
		{"redact", "replace names, paths and addresses in a report by tokens", redactCommand},
		{"check-redaction", "verify that nothing but tokens is left of them", checkRedactionCommand},
		{"merge", "merge reports of many devices into one", mergeCommand},
		{"watch", "process reports as they arrive in a directory", watchCommand},
		{"futex", "report who waits for which lock, and who holds it", futexCommand},
		{"doctor", "check whether live works here, and what would help", doctorCommand},
		{"maps", "list which files processes have mapped where", mapsCommand},
		{"needs", "list the files that are missing to name functions", needsCommand},
		{"explain", "show where the file and function of a frame came from", explainCommand},
		{"clean", "remove the tracing instances of killed ustack processes", cleanCommand},
	}
}

// memoryLimit makes the garbage collector work harder when memory gets scarce:
// ustack runs on small devices. What it keeps is bounded well below.
const memoryLimit = 52 << 20

func main() {
	debug.SetMemoryLimit(memoryLimit)
	if err := privilege.Start(needsRights(os.Args[1:])); err != nil {
		fmt.Fprintf(os.Stderr, "ustack: %v\n", err)
		os.Exit(exitFailure)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// needsRights reports whether a command may need rights that its user does not
// have (see package privilege). All others do without.
func needsRights(args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0] {
	case "live", "record", "futex", "doctor", "maps", "clean":
		return true
	}
	return false
}

// run is main with its surroundings as arguments.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], stdin, stdout, stderr)
		}
	}
	switch args[0] {
	case "help":
		return helpCommand(args[1:], stdin, stdout, stderr)
	case "-h", "-help", "--help":
		usage(stdout)
		return exitOK
	}
	fmt.Fprintf(stderr, "ustack: unknown command %q\n", args[0])
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: ustack COMMAND [flags] ...\n\nCommands (flags: ustack COMMAND --help):\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-15s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nTopics of the manual (ustack help TOPIC):\n\n")
	for _, t := range help.Topics() {
		fmt.Fprintf(w, "  %-15s %s\n", t.Name, t.Summary)
	}
}
