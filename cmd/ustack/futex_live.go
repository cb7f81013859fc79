package main

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/render"
)

const futexLiveHelp = `usage: ustack futex --live [flags] [-- CMD ARGS...]

Traces futex calls as ustack live does, until CMD ends, --duration is over or
Ctrl-C comes, and then reports who waits for which lock. Manual: ustack help futex.

  ustack futex --live -- ./program
  ustack futex --live -p 1234 --duration 10s
  ustack futex --live --symbols -- ./program
  ustack futex --live -e sched:sched_switch -e sched:sched_waking --duration 10s

Events of -e are traced besides the futex calls; sched_switch and sched_waking
make the report surer. On a terminal the report so far is updated every second.

`

// futexLive is "futex --live".
func futexLive(args []string, std command.Streams) error {
	f, source, err := parseFutexLive(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	opt := source.engine("futex", std)
	opt.NoText, opt.DebugDirs = true, f.symbols.DebugDirs
	return trace(opt, contention.NewLive(f.output(), contention.LiveOptions{
		LiveOptions: analysis.LiveOptions{Interval: f.every(), Symbols: f.symbols.Options, Stdout: std.Out, Reporter: opt.Reporter}, Owners: f.owners,
	}), liveGarbage)
}

func parseFutexLive(args []string, stdout io.Writer) (*futexFlags, *liveFlags, error) {
	var f futexFlags
	var source liveFlags
	fs := command.NewFlags("futex")
	source.sourceFlags(fs)
	f.viewFlags(fs)
	command.Unset(fs, &source.Sched, "no-sched", "do not trace what the owners of locks do: sched_switch and sched_waking, with -p or a command")
	fs.BoolVar(&f.owners, "owners", false, "read the owners of locks that threads wait for from memory")
	fs.Func("interval", "update the report every `TIME`, 0 for at the end only (default 1s on a terminal, else 0)", f.setInterval)
	if err := command.Parse(fs, args, futexLiveHelp, stdout); err != nil {
		return nil, nil, err
	}
	if f.interval != nil && f.format != "text" && f.format != "json" && !f.json {
		return nil, nil, errors.New("--interval is for text and JSON: a profile is of the whole trace")
	}
	if f.format == "text" && !f.json && f.interval == nil && render.NewScreen(stdout) != nil {
		f.interval = new(time.Duration)
		*f.interval = defaultInterval
	}
	source.Command = fs.Args()
	source.Stitch = true // a wait is reported with its stack
	source.More, source.Events = source.Events, nil
	return &f, &source, errors.Join(f.check(), source.checkSource(args))
}

// defaultInterval is how often the answer so far is shown on a terminal.
const defaultInterval = time.Second

// setInterval understands --interval.
func (f *futexFlags) setInterval(text string) error {
	d, err := time.ParseDuration(text)
	if text == "0" {
		d, err = 0, nil
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time like 1s", text)
	}
	f.interval = &d
	return nil
}

// every returns how often the answer so far is shown, 0 for never.
func (f *futexFlags) every() time.Duration {
	if f.interval == nil {
		return 0
	}
	return *f.interval
}
