package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/waiting"
	"ustack/render"
	"ustack/tracefs/instance"
)

// waitFlags are the flags of wait.
type waitFlags struct {
	waiting.Flags
	source liveFlags
	trace  traceFlags
	saved  bool // the trace is a file
}

func parseWait(args []string, stdout io.Writer) (*waitFlags, error) {
	var f waitFlags
	fs := command.NewFlags("wait")
	f.source.sourceFlags(fs)
	f.trace.define(fs)
	f.trace.definePerfMap(fs)
	f.trace.symbols.register(fs)
	defineStrict(fs, &f.trace.Strict)
	f.Register(fs)
	if err := command.ParseOperands(fs, args, help.Usage("wait"), stdout); err != nil {
		return nil, err
	}
	files := fs.Args()
	n := len(files)
	f.saved = n > 0 && (n == len(args) || args[len(args)-n-1] != "--")
	if f.saved {
		return &f, errors.Join(f.Check(), command.Files(args, files, "ustack wait"), f.notOf(fs, waiting.OnlyLive(), "tracing now"), f.readFrom(files))
	}
	f.source.Command = files
	return &f, errors.Join(f.Check(), f.notOf(fs, waiting.OnlySaved(), "saved traces"), f.traceNow(args))
}

// notOf reports flags that are of no use here.
func (f *waitFlags) notOf(fs *flag.FlagSet, names []string, use string) (err error) {
	fs.Visit(func(x *flag.Flag) {
		if slices.Contains(names, x.Name) {
			err = errors.Join(err, fmt.Errorf("%s is for %s", command.Dashed(x.Name), use))
		}
	})
	return err
}

// readFrom has a saved trace read.
func (f *waitFlags) readFrom(files []string) error {
	f.trace.Quiet = f.source.quiet
	return f.trace.parsed(files)
}

// traceNow has the trace made.
func (f *waitFlags) traceNow(args []string) error {
	s := &f.source
	switch {
	case s.Unwind == live.UnwindCopy:
		return errors.New("--unwind=copy is for waits at futexes: ustack wait reads stacks while the waits last (blocked), or has those of the kernel (fp)")
	case len(s.pids) == 0 && len(s.Command) == 0 && s.Duration == 0:
		return errors.New("name a trace, or trace now: -p PID, --duration TIME or -- CMD")
	}
	s.More, s.Events, s.Specs = s.Events, nil, instance.Waits()
	if s.Save != "" { // a saved trace shows by these how calls are numbered
		s.Specs = append(s.Specs, instance.Defaults()...)
	}
	s.Stitch, s.Strict, s.NeedStacks, s.NoText = true, f.trace.Strict, true, true
	s.EverySleep = s.Unwind != live.UnwindFP
	return s.checkSource(args)
}

// waitCommand is the subcommand.
func waitCommand(args []string, std command.Streams) error {
	f, err := parseWait(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	if f.saved {
		defer debug.SetGCPercent(debug.SetGCPercent(futexGarbage))
		return f.To.Send(std.Out, f.IsText(), func(w io.Writer) error {
			return f.Run(&f.trace.Options, &f.trace.symbols.Options, std.In, w, std.Messages())
		})
	}
	if f.IsText() && !f.To.ToFile() && f.Interval == 0 && render.NewScreen(std.Out) != nil {
		f.Interval = time.Second
	}
	child, err := f.To.ForCommand(f.source.Command, std, f.IsText())
	if err != nil {
		return command.UsageError(err)
	}
	opt := f.source.engine("wait", child)
	opt.DebugDirs = f.trace.symbols.DebugDirs
	return trace(opt, waiting.NewLive(&f.Flags, f.trace.symbols.Options, std.Out, opt), liveGarbage)
}
