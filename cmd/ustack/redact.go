package main

import (
	"errors"
	"flag"
	"io"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/render/redact"
	"ustack/tracefs/input"
)

// redactFlags are the flags of what redacts.
type redactFlags struct {
	allow    string
	keyFile  string
	redactor *redact.Redactor
}

func (f *redactFlags) define(fs *flag.FlagSet) {
	defineAllow(fs, &f.allow)
	fs.StringVar(&f.keyFile, "redact-key", "", "make tokens with the key in `FILE`, so that reports can be compared (default: a new key, forgotten at the end)")
}

func defineAllow(fs *flag.FlagSet, to *string) {
	fs.StringVar(to, "redact-allow", redact.DefaultPaths, "`DIRS` whose paths may stay, colons between")
}

// makeRedactor makes what the flags ask for.
func (f *redactFlags) makeRedactor() error {
	paths, err := redact.ParsePaths(f.allow)
	if err != nil {
		return err
	}
	key := redact.NewKey()
	if f.keyFile != "" {
		if key, err = redact.ReadKey(f.keyFile); err != nil {
			return err
		}
	}
	f.redactor = redact.New(key, paths)
	return nil
}

// convertFlags are the flags of a command that makes a report of traces.
type convertFlags struct {
	traceFlags
	out string
}

// define adds the flags to a command.
func (f *convertFlags) define(fs *flag.FlagSet) {
	f.traceFlags.define(fs)
	fs.BoolVar(&f.Quiet, "q", false, "no totals and no progress")
	fs.StringVar(&f.out, "o", "", "write the report to `FILE`")
}

// parse parses args, in which flags may also stand after the files.
func (f *convertFlags) parse(fs *flag.FlagSet, args []string, help string, stdout io.Writer) error {
	if err := command.ParseOperands(fs, args, help, stdout); err != nil {
		return err
	}
	if f.out == "" {
		return errors.New("-o FILE is missing")
	}
	return f.parsed(fs.Args())
}

// redactCommand is the subcommand.
func redactCommand(args []string, std command.Streams) error {
	var f convertFlags
	var r redactFlags
	fs := command.NewFlags("redact")
	f.define(fs)
	r.define(fs)
	err := f.parse(fs, args, help.Usage("redact"), std.Out)
	if err == nil {
		err = r.makeRedactor()
	}
	if err != nil {
		return command.UsageError(err)
	}
	totals, err := f.redact(&r, std.In, std.Messages())
	if totals != nil && !f.Quiet {
		render.WriteTotals(std.Messages(), totals)
	}
	return err
}

func (f *convertFlags) redact(r *redactFlags, stdin io.Reader, stderr io.Writer) (*resolve.Totals, error) {
	f.Messages = stderr
	trace, err := f.Open(stdin, input.Options{Events: true, Escape: true}, resolve.Options{Hold: pump.Hold()})
	if err != nil {
		return nil, err
	}
	defer trace.Close()
	file, err := record.Create(f.out, 0)
	if err != nil {
		return nil, err
	}
	out := record.NewConverter(file, r.redactor)
	totals, err := trace.Read(func(*resolve.Resolver) render.Renderer { return out }, stderr)
	return totals, finishConverted(file, err)
}

// finishConverted gives a report its name, or removes the unfinished file.
func finishConverted(file *record.File, err error) error {
	if err != nil {
		return errors.Join(err, file.Discard())
	}
	return file.Finish(nil)
}
