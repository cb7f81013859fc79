// Command ustack makes files of the user-space stacks in an ftrace: path,
// build ID and offset.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/completion"
	"ustack/cmd/ustack/internal/front"
	"ustack/tracefs/privilege"
)

// Exit codes, the same for all commands.
const (
	exitOK         = command.OK
	exitFailure    = command.Failure
	exitUsage      = command.Usage
	exitLoss       = 3 // --fail-on-loss
	exitUnresolved = 4 // --max-unresolved
)

// commands returns all commands. Each has its own file.
func commands() []command.Command {
	return []command.Command{
		{Name: "replay", Summary: "resolve the stacks in a saved trace", Stream: true, Run: replay},
		{Name: "live", Summary: "trace now, and resolve the stacks as they happen", Privileged: true, Stream: true, Run: liveCommand},
		{Name: "record", Summary: "trace into a small file for another machine", Privileged: true, Stream: true, Run: recordCommand},
		{Name: "redact", Summary: "replace names, paths and addresses in a report by tokens", Run: redactCommand},
		{Name: "check-redaction", Summary: "verify that nothing but tokens is left of them", Run: checkRedactionCommand},
		{Name: "merge", Summary: "merge reports of many devices into one", Run: mergeCommand},
		{Name: "export", Summary: "make tables of the reports of many devices, for DuckDB", Run: exportCommand},
		{Name: "fleet", Summary: "say which locks cost most over many devices, or what is new", Stream: true, Run: fleetCommand},
		{Name: "push", Summary: "send the reports of many devices to a server: ClickHouse, OTLP, Pyroscope", Run: pushCommand},
		{Name: "symbolize", Summary: "name the functions of many devices, each once", Run: symbolizeCommand},
		{Name: "watch", Summary: "process reports as they arrive in a directory", Run: watchCommand},
		{Name: "futex", Summary: "report who waits for which lock, and who holds it", Privileged: true, Stream: true, Run: futexCommand},
		{Name: "wait", Summary: "report what threads wait for, of any kind, and what wakes them", Privileged: true, Stream: true, Run: waitCommand},
		{Name: "top", Summary: "show on a full screen who waits for which lock now", Privileged: true, Run: topCommand},
		{Name: "open", Summary: "report what is in a saved trace or recording, whatever it is", Stream: true, Run: openCommand},
		{Name: "diff", Summary: "say which locks are waited for more in one trace than in another", Run: diffCommand},
		{Name: "query", Summary: "answer an SQL query about a saved trace: waits, holds, stacks", Stream: true, Run: queryCommand},
		{Name: "mcp", Summary: "serve such queries, and the report, to agents (MCP, on stdio)", Run: mcpCommand},
		{Name: "doctor", Summary: "check whether live works here, and what would help", Privileged: true, Run: doctorCommand},
		{Name: "maps", Summary: "list which files processes have mapped where", Privileged: true, Stream: true, Run: mapsCommand},
		{Name: "needs", Summary: "list the files that are missing to name functions", Stream: true, Run: needsCommand},
		{Name: "explain", Summary: "show where the file and function of a frame came from", Stream: true, Run: explainCommand},
		{Name: "health", Summary: "show where stacks through a program or process stop, and why", Privileged: true, Stream: true, Run: healthCommand},
		{Name: "completion", Summary: "print a script that completes command lines, for a shell", Run: completionCommand},
		{Name: "clean", Summary: "remove the tracing instances of killed ustack processes", Privileged: true, Run: cleanCommand},
	}
}

// memoryLimit makes the garbage collector work harder when memory gets scarce:
// ustack runs on small devices. Its bounds keep it well below.
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
	c, _, ok := find(args)
	return ok && c.Privileged
}

// find returns the command that the arguments name, and its arguments.
func find(args []string) (c command.Command, rest []string, ok bool) {
	if len(args) == 0 {
		return c, nil, false
	}
	all := append(commands(), command.Command{Name: "help", Run: helpCommand}, command.Command{Name: completion.Hidden, Run: completeCommand})
	named := func(name string) int {
		return slices.IndexFunc(all, func(c command.Command) bool { return c.Name == name })
	}
	if i := named(args[0]); i >= 0 {
		return all[i], args[1:], true
	}
	if rest, ok = front.Args(args, "/proc"); ok {
		return all[named(front.Command)], rest, true
	}
	return c, nil, false
}

// run is main with its surroundings as arguments.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, front.Welcome)
		return exitUsage
	}
	if c, rest, ok := find(args); ok {
		return c.Main(rest, command.Streams{In: stdin, Out: stdout, Err: stderr})
	}
	switch args[0] {
	case "-h", "-help", "--help":
		usage(stdout)
		return exitOK
	case "version", "-version", "--version", "-V":
		fmt.Fprintln(stdout, command.VersionLine())
		return exitOK
	}
	names := []string{"help", "version"}
	for _, c := range commands() {
		names = append(names, c.Name)
	}
	fmt.Fprintf(stderr, "ustack: %s\n", front.Unknown(args, names, "/proc", checkFutexLive))
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: ustack COMMAND [flags] ...\n       ustack PID|NAME [flags], ustack [flags] -- CMD: futex --live with all names\n       a first time: ustack help tutorial\n\nCommands (flags: ustack COMMAND --help):\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-15s %s\n", c.Name, c.Summary)
	}
	fmt.Fprint(w, "\nTopics of the manual (ustack help TOPIC):\n\n")
	for _, t := range help.Topics() {
		fmt.Fprintf(w, "  %-15s %s\n", t.Name, t.Summary)
	}
	fmt.Fprint(w, "\nAll of it as pages for man(1): ustack help --man DIR\n")
}
