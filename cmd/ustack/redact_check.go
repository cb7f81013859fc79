package main

import (
	"errors"
	"fmt"
	"io"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/saved"
	"ustack/render"
	"ustack/render/progress"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// checkRedactionCommand is the subcommand.
func checkRedactionCommand(args []string, std command.Streams) error {
	var allow string
	fs := command.NewFlags("check-redaction")
	defineAllow(fs, &allow)
	var to destination.Flags
	to.RegisterFile(fs)
	err := command.ParseOperands(fs, args, help.Usage("check-redaction"), std.Out)
	paths, perr := redact.ParsePaths(allow)
	if err = errors.Join(err, perr); err != nil {
		return command.UsageError(err)
	}
	files := fs.Args()
	if len(files) == 0 {
		files = []string{"-"}
	}
	saved.SayTerminal(files, std.In, std.Messages())
	return to.Stream(std.Out, func(w io.Writer) error { return checkRedactions(files, std, render.Output(w), paths) })
}

// checkRedactions reads all reports, and lists what is left in them.
func checkRedactions(files []string, std command.Streams, stdout io.Writer, paths redact.Paths) error {
	stderr := std.Messages()
	code := exitOK
	for _, name := range files {
		c, err := checkRedaction(name, std.In, paths, render.Progress(stderr, false))
		for _, l := range c.Leaks {
			fmt.Fprintf(stdout, "%s:%d: byte %d: %q: %s\n", name, l.Line, l.Byte, l.Text, l.What)
		}
		if c.Count > 0 {
			fmt.Fprintf(stderr, "ustack check-redaction: %s: %d leaks\n", name, c.Count)
			code = exitFailure
		}
		if err != nil {
			fmt.Fprintf(stderr, "ustack check-redaction: %v\n", err)
			code = exitFailure
		}
	}
	return command.Exit(code)
}

// checkRedaction reads a report.
func checkRedaction(name string, stdin io.Reader, paths redact.Paths, line *progress.Line) (*redact.Checker, error) {
	c := redact.NewChecker(paths)
	trace, err := input.OpenAll([]string{name}, stdin, input.Options{Events: true, NoTemplates: true})
	if err != nil {
		return c, err
	}
	defer trace.Close()
	if len(trace.Reports()) > 0 {
		return c, fmt.Errorf("%s: a report of pages is never redacted: it has all paths and addresses (ustack redact makes a report without)", name)
	}
	defer line.Begin("checking "+name, trace.Progress()).End()
	var b tracefs.Batch
	for {
		err := trace.Next(&b)
		c.Batch(&b)
		switch err {
		case nil:
		case io.EOF:
			c.End()
			return c, nil
		default:
			c.End()
			return c, err
		}
	}
}
