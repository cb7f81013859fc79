package main

import (
	"cmp"
	"errors"
	"flag"
	"io"
	"os"
	"runtime/debug"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/cmd/ustack/internal/sums"
	"ustack/render"
)

// futexLive is "futex --live".
func futexLive(args []string, std command.Streams) error {
	f, source, err := parseFutexLive(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	child, err := f.to.ForCommand(source.Command, std, f.view.IsText())
	if err != nil {
		return command.UsageError(err)
	}
	if sums.Supported && f.sums {
		return futexSums(f, source, std, child)
	}
	opt := source.engine("futex", child)
	opt.NoText, opt.Spare, opt.RoomKB, opt.DebugDirs = true, true, futexRoom, f.symbols.DebugDirs
	return trace(opt, contention.NewLive(f.output(), contention.LiveOptions{
		LiveOptions: analysis.LiveOptions{Interval: f.view.Every(), Symbols: f.symbols.Options, Stdout: std.Out, To: f.to, Text: f.view.IsText(), Reporter: opt.Reporter}, Owners: f.owners,
	}), liveGarbage)
}

// futexSums is futexLive with --source=bpf. child has the streams of the command.
func futexSums(f *futexFlags, source *liveFlags, std, child command.Streams) error {
	return runSums(source, std, child, sums.Options{
		MinWait: cmp.Or(time.Duration(f.view.View.MinWait), sums.DefaultMinWait), Interval: f.view.Every(), Symbols: f.symbols.Options, Out: f.output(),
		To: f.to, Text: f.view.IsText(),
	})
}

// runSums runs --source=bpf. child has the streams of the command.
func runSums(f *liveFlags, std, child command.Streams, opt sums.Options) error {
	opt.PIDs, opt.Command, opt.Duration, opt.Proc, opt.MapsSource, opt.Quiet, opt.Unwind = f.PIDs, f.Command, f.Duration, f.Proc, f.mapsFrom.Source, f.quiet, f.Unwind
	opt.Child, opt.Stdout, opt.Messages, opt.Exit = child, std.Out, std.Messages(), os.Exit
	code, err := sums.Run(&opt)
	return errors.Join(err, command.Exit(code))
}

func parseFutexLive(args []string, stdout io.Writer) (*futexFlags, *liveFlags, error) {
	var f futexFlags
	var source liveFlags
	fs := command.NewFlags("futex")
	source.sourceFlags(fs)
	f.viewFlags(fs)
	command.Unset(fs, &source.Sched, "no-sched", "do not trace what the owners of locks do: sched_switch, sched_waking and ticks of the timer, with -p or a command")
	fs.Lookup("source").Usage += "; bpf: counted by BPF programs in the kernel, of which only long waits come, all the time for little"
	fs.BoolVar(&f.owners, "owners", false, "read the owners of locks that threads wait for from memory")
	f.view.RegisterInterval(fs)
	if err := command.Parse(fs, args, help.Usage("futex-live"), stdout); err != nil {
		return nil, nil, err
	}
	if f.view.Interval == nil && f.view.IsText() && !f.to.ToFile() && render.NewScreen(stdout) != nil {
		f.view.Interval = new(time.Duration)
		*f.view.Interval = defaultInterval
	}
	if f.sums = source.Source == sums.Name; f.sums {
		if err := sums.Check(fs); err != nil {
			return nil, nil, err
		}
		source.Source = sources.Auto // it has none of the engine's
	}
	source.Command = fs.Args()
	source.Stitch = true // a wait is reported with its stack
	source.More, source.Events = source.Events, nil
	return &f, &source, errors.Join(f.view.Check(), source.checkSource(args))
}

// checkFutexLive returns what is wrong with flags of "futex --live".
func checkFutexLive(flags []string) error {
	if _, _, err := parseFutexLive(flags, io.Discard); !errors.Is(err, flag.ErrHelp) {
		return err
	}
	return nil
}

// futexRoom is the buffer of each CPU in KB. Several events of a thread come with each wait.
const futexRoom = 8192

// defaultInterval is how often the answer so far is shown on a terminal.
const defaultInterval = time.Second
