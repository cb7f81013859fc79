package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/pids"
	"ustack/filemap/anoncode"
	"ustack/filemap/inspect"
	"ustack/render"
	"ustack/render/health"
)

// healthFlags are the flags of health.
type healthFlags struct {
	json, verbose bool
	to            destination.Flags
	debugDirs     command.List
	names         command.List // of processes
	pids          []int
	files         []string
}

func parseHealth(args []string, stdout io.Writer) (*healthFlags, error) {
	var f healthFlags
	fs := command.NewFlags("health")
	fs.BoolVar(&f.json, "json", false, "print a JSON object")
	f.to.Register(fs)
	fs.BoolVar(&f.verbose, "v", false, "print all that is known of each file")
	fs.Var(&f.debugDirs, "debug-dir", "look for debug files in `DIR`, too; may be repeated")
	fs.Var(&f.names, "p", "look at the files that the process `PID` (or PID,PID or name:REGEX) can run code of; may be repeated")
	if err := command.ParseOperands(fs, args, help.Usage("health"), stdout); err != nil {
		return nil, err
	}
	f.files = fs.Args()
	if len(f.files)+len(f.names) == 0 {
		return nil, errors.New("a FILE, or -p PID, is required")
	}
	var err error
	f.pids, err = pids.Parse("/proc", f.names)
	return &f, err
}

// healthCommand is the subcommand.
func healthCommand(args []string, std command.Streams) error {
	f, err := parseHealth(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	failed, messages := false, std.Messages()
	defer render.Progress(messages, f.json).Begin("looking at the files", nil).End()
	err = f.to.Send(std.Out, !f.json, func(w io.Writer) error {
		return f.run(render.Output(w), func(err error) {
			failed = true
			fmt.Fprintf(messages, "ustack health: %v\n", err)
		})
	})
	if err == nil && failed {
		return command.Exit(exitFailure)
	}
	return err
}

// run looks at all. complain is called with what cannot be looked at.
func (f *healthFlags) run(stdout io.Writer, complain func(error)) error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then there is no cache of perf's
	}
	i, err := inspect.New(inspect.Options{DebugDirs: f.debugDirs, Home: home, VDSO: anoncode.VDSOMemory})
	if err != nil {
		return err
	}
	defer i.Close()
	w := health.NewText(stdout, f.verbose)
	if f.json {
		w = health.NewJSON(stdout)
	}
	return health.Print(w, i, f.files, f.pids, complain)
}
