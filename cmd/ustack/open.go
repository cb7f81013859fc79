package main

import (
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"strconv"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/filekind"
	"ustack/cmd/ustack/internal/waiting"
	"ustack/render"
)

// openFlags are the flags of open.
type openFlags struct {
	trace traceFlags
	view  contention.Flags
	wait  waiting.Flags
	to    destination.Flags
	json  bool
}

func parseOpen(args []string, stdout io.Writer) (*openFlags, error) {
	var f openFlags
	fs := command.NewFlags("open")
	f.trace.define(fs)
	fs.Var((*command.List)(&f.trace.symbols.DebugDirs), "debug-dir", "look for debug information in `DIR`, too; may be repeated")
	f.trace.definePerfMap(fs)
	fs.BoolVar(&f.trace.Quiet, "q", false, "no totals and no progress")
	f.to.Register(fs)
	fs.BoolVar(&f.json, "json", false, "write JSON, as ustack futex, wait or replay does")
	if err := command.ParseOperands(fs, args, help.Usage("open"), stdout); err != nil {
		return nil, err
	}
	if fs.NArg() == 0 || slices.Contains(fs.Args(), "-") {
		return nil, errors.New("a FILE is required: what is in it decides how it is read")
	}
	view, wait := command.NewFlags("open"), command.NewFlags("open") // for the defaults of flags that open does not have
	f.view.Register(view)
	f.wait.Register(wait)
	if err := errors.Join(view.Set("json", strconv.FormatBool(f.json)), wait.Set("json", strconv.FormatBool(f.json))); err != nil {
		return nil, err
	}
	f.trace.StackMaps.Define(command.NewFlags("open"))
	f.trace.symbols.On = true
	f.view.Must, f.wait.Must, f.view.Quiet = true, true, f.trace.Quiet
	var files []string
	for _, name := range fs.Args() {
		files = append(files, filekind.Trace(name))
	}
	return &f, errors.Join(f.trace.parsed(files), f.view.Check(), f.wait.Check())
}

// openCommand is the subcommand.
func openCommand(args []string, std command.Streams) error {
	f, err := parseOpen(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	defer debug.SetGCPercent(debug.SetGCPercent(futexGarbage))
	err = f.to.Send(std.Out, !f.json, func(w io.Writer) error {
		err := f.view.Run(&f.trace.Options, &f.trace.symbols.Options, nil, w, std.Messages())
		if errors.Is(err, contention.ErrNone) {
			err = f.wait.Run(&f.trace.Options, &f.trace.symbols.Options, nil, w, std.Messages())
		}
		return err
	})
	if !errors.Is(err, waiting.ErrNone) {
		return filekind.Explain(err, f.trace.Files)
	}
	return f.to.Stream(std.Out, func(w io.Writer) error { return f.replay(w, std.Messages()) })
}

// replay shows the stacks of a trace in which no thread waits.
func (f *openFlags) replay(stdout, stderr io.Writer) error {
	r, err := defaultReplay(f.trace.Files, func(r *replayFlags) {
		r.traceFlags, r.stitch = f.trace, true
		if f.json {
			r.format = "json"
		}
	})
	if err != nil {
		return err
	}
	totals, err := r.run(nil, stdout, stderr)
	if totals == nil || err != nil {
		return err
	}
	if totals.Events+totals.Stacks == 0 {
		return filekind.Explain(errors.New("there is no event and no stack in the trace"), f.trace.Files)
	}
	if !f.trace.Quiet {
		render.WriteTotals(stderr, totals)
	}
	return nil
}
