package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/events"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pids"
	"ustack/cmd/ustack/internal/signals"
	"ustack/render"
	"ustack/tracefs/nearest"
)

// liveFlags are the flags of live; flags of all commands that trace are options of
// the engine.
type liveFlags struct {
	live.Options
	quiet    bool
	pids     command.List
	mapsFrom mapsSource
	format   string
	symbols  symbolFlags
	out      string // of record
	events   events.Options
}

func parseLive(args []string, stdout io.Writer) (*liveFlags, error) {
	var f liveFlags
	fs := command.NewFlags("live")
	f.sourceFlags(fs)
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: "+output.AllFormatWords())
	command.JSON(fs)
	f.symbols.register(fs)
	buildID := fs.String("build-id", "kernel", "`FORM` of build IDs in text: kernel (words), hex (as readelf -n) or none")
	defineStrict(fs, &f.Strict)
	fs.BoolVar(&f.Stitch, "stitch", false, "print each event's stack under the event")
	fs.BoolVar(&f.events.Text.KeepMaps, "keep-maps", false, "keep file mapping events in the text")
	f.events.To.RegisterFile(fs)
	if err := command.Parse(fs, args, help.Usage("live"), stdout); err != nil {
		return nil, err
	}
	f.Command = fs.Args()
	var err error
	f.events.Text.BuildID, err = render.ParseBuildIDStyle(*buildID)
	return &f, errors.Join(err, f.check(args))
}

// sourceFlags defines the flags of all commands that trace.
func (f *liveFlags) sourceFlags(fs *flag.FlagSet) {
	fs.BoolVar(&f.quiet, "q", false, "no start-up line, no counter and no totals")
	fs.Var((*command.List)(&f.Events), "e", "trace `SYSTEM:EVENT[/FILTER/]`, wildcards allowed; may be repeated")
	fs.Var(&f.pids, "p", "trace the process `PID` (or PID,PID or name:REGEX) with its threads, and their children; may be repeated")
	fs.DurationVar(&f.Duration, "duration", 0, "stop after this `TIME`")
	fs.IntVar(&f.BufferKB, "b", 0, "ring buffer of so many `KB` for each CPU (default: the kernel's; futex: 8192, or 32768 for all CPUs if that is less)")
	f.MaxBuffer = -1
	fs.Func("max-buffer", "let the ring buffer of all CPUs grow to `BYTES` (suffix K, M or G) before it loses; 0: not at all (default: 5 % of memory; 0 with -b)", func(word string) (err error) {
		f.MaxBuffer, err = command.ParseSize("--max-buffer", word)
		return err
	})
	fs.StringVar(&f.Save, "save", "", "save the raw trace and all mappings in the directory `DIR`, for replay")
	fs.StringVar(&f.Tracefs, "tracefs", "", "`DIR` where tracefs is mounted (default: where it usually is)")
	fs.StringVar(&f.Proc, "proc", "/proc", "`DIR` where proc is mounted")
	fs.StringVar(&f.Source, "source", sources.Auto, "`WHAT` is read: "+sourceWords()+" or auto (the first that can be had)")
	fs.StringVar(&f.Unwind, "unwind", live.UnwindAuto, "`HOW` stacks of futex waits are found: fp (by the kernel, which goes by frame pointers), copy (a copy of the stack, by the tables of the files: whole stacks of what distributions build), blocked (waits of over 1 ms, read while they last) or auto (copy where that can be had, up to 20000 a second, else blocked)")
	fs.StringVar(&f.Mappings, "mappings", live.MappingsAuto, "`HOW` mappings are followed: perf (side band), query (ask processes) or auto")
	f.mapsFrom.register(fs)
}

func (f *liveFlags) check(args []string) error {
	var err error
	if f.events.Format, f.events.Profile, err = output.ParseFormat(f.format); err != nil {
		return err
	}
	f.Stitch = f.Stitch || f.events.Format.Stitched || f.events.Format.New == nil
	f.events.Text.Stitch = f.Stitch
	return f.checkSource(args)
}

// sourceWords lists the sources.
func sourceWords() string {
	var words []string
	for _, k := range sources.All() {
		words = append(words, k.Name+" ("+k.Help+")")
	}
	return strings.Join(words, ", ")
}

// checkSource checks the flags of all commands that trace.
func (f *liveFlags) checkSource(args []string) error {
	for _, word := range []struct {
		what, word string
		known      []string
	}{
		{"way to follow mappings", f.Mappings, []string{live.MappingsAuto, live.MappingsPerf, live.MappingsQuery}},
		{"source", f.Source, sources.Names()},
		{"way to unwind", f.Unwind, []string{live.UnwindAuto, live.UnwindFP, live.UnwindCopy, live.UnwindBlocked}},
	} {
		if !slices.Contains(word.known, word.word) {
			return errors.New(nearest.Unknown(word.what, word.word, word.known))
		}
	}
	if f.Duration < 0 || f.BufferKB < 0 {
		return errors.New("--duration and -b must not be negative")
	}
	if len(f.Command) > 0 && len(f.pids) > 0 {
		return errors.New("-p and a command cannot be combined")
	}
	if n := len(f.Command); n > 0 && (len(args) == n || args[len(args)-n-1] != "--") {
		return fmt.Errorf("unexpected argument %q (a command to run goes after --)", f.Command[0])
	}
	var err error
	f.PIDs, err = pids.Parse(f.Proc, f.pids)
	return err
}

// How much garbage there may be, in percent of what is in use: some megabytes with
// live, so that the time of the collector is better spent on the trace; more with
// record, which compresses.
const (
	liveGarbage   = 200
	recordGarbage = 100
)

// engine returns the options of the engine for a command that has these streams.
func (f *liveFlags) engine(name string, std command.Streams) *live.Options {
	opt := &f.Options
	opt.MapsSource = f.mapsFrom.Source
	opt.Stdin, opt.Stdout, opt.Stderr = std.In, std.Out, std.Err
	opt.Reporter = &live.Reporter{Command: name, Out: std.Messages(), Quiet: f.quiet}
	opt.Exit = os.Exit
	return opt
}

// trace runs the engine into a sink, with so much garbage.
func trace(opt *live.Options, to live.Sink, garbage int) error {
	signals.CatchPipe()
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	code, err := live.Run(opt, to)
	if err != nil {
		return err
	}
	return command.Exit(code)
}

// liveCommand is the subcommand.
func liveCommand(args []string, std command.Streams) error {
	f, err := parseLive(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	child, err := f.events.To.ForCommand(f.Command, std, f.format == "text")
	if err != nil {
		return command.UsageError(err)
	}
	opt := f.engine("live", child)
	opt.NeedStacks, opt.DebugDirs = true, f.symbols.DebugDirs
	f.events.Stdout, f.events.Symbols = std.Out, &f.symbols.Options
	return trace(opt, &events.Sink{Options: f.events}, liveGarbage)
}
