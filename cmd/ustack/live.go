package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/render"
)

const liveHelp = `usage: ustack live [flags] [-- CMD ARGS...]

Traces events with user stacks and resolves every frame, as they happen, to path,
build ID and offset of its file. Without -e the events are the futex system calls.
Uses deferred stacks where the kernel has them, else userstacktrace; the output is
the same, and the same as replay's. Manual: ustack help live.

  ustack live                                # futexes of all processes
  ustack live -p 1234 --duration 10s -o out  # of one, its threads and children
  ustack live -e sched:sched_switch/prev_state\>0/ -- make -j2
  ustack live --save DIR                     # keep what replay needs, too

Ctrl-C stops the tracing and prints what is left, twice stops at once. ustack
traces in the instance ustack-PID, and removes it at the end. With CMD the exit
code is CMD's.

`

// liveFlags are the flags of live.
type liveFlags struct {
	quiet    bool
	events   command.List
	pids     command.List
	duration time.Duration
	bufferKB int
	format   string
	buildID  render.BuildIDStyle
	stitch   bool
	strict   bool
	keepMaps bool
	symbols  symbolFlags
	out      string
	save     string
	tracefs  string
	proc     string
	mappings string
	mapsFrom mapsSource
	source   string
	unwind   string
	command  []string

	tids []int        // of pids
	more command.List // events to trace besides
}

func parseLive(args []string, stdout io.Writer) (*liveFlags, error) {
	var f liveFlags
	fs := command.NewFlags("live")
	f.sourceFlags(fs)
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text or json (lines)")
	f.symbols.register(fs)
	buildID := fs.String("build-id", "kernel", "`FORM` of build IDs in text: kernel (words), hex (as readelf -n) or none")
	defineStrict(fs, &f.strict)
	fs.BoolVar(&f.stitch, "stitch", false, "print each event's stack under the event")
	fs.BoolVar(&f.keepMaps, "keep-maps", false, "keep file mapping events in the text")
	fs.StringVar(&f.out, "o", "", "write to `FILE` instead of standard output")
	if err := command.Parse(fs, args, liveHelp, stdout); err != nil {
		return nil, err
	}
	f.command = fs.Args()
	var err error
	f.buildID, err = render.ParseBuildIDStyle(*buildID)
	return &f, errors.Join(err, f.check(args))
}

// sourceFlags defines the flags of all commands that trace.
func (f *liveFlags) sourceFlags(fs *flag.FlagSet) {
	fs.BoolVar(&f.quiet, "q", false, "no start-up line, no counter and no totals")
	fs.Var(&f.events, "e", "trace `SYSTEM:EVENT[/FILTER/]`, wildcards allowed; may be repeated")
	fs.Var(&f.pids, "p", "trace the process `PID` with its threads, and their children; may be repeated")
	fs.DurationVar(&f.duration, "duration", 0, "stop after this `TIME`")
	fs.IntVar(&f.bufferKB, "b", 0, "ring buffer of so many `KB` for each CPU (default: the kernel's)")
	fs.StringVar(&f.save, "save", "", "save the raw trace and all mappings in the directory `DIR`, for replay")
	fs.StringVar(&f.tracefs, "tracefs", "", "`DIR` where tracefs is mounted (default: where it usually is)")
	fs.StringVar(&f.proc, "proc", "/proc", "`DIR` where proc is mounted")
	fs.StringVar(&f.source, "source", sourceAuto, "`WHAT` is read: text (trace_pipe), binary (the ring buffer, which costs less and loses less) or auto")
	defineUnwind(fs, &f.unwind)
	fs.StringVar(&f.mappings, "mappings", "auto", "`HOW` mappings are followed: perf (side band), query (ask processes) or auto")
	f.mapsFrom.register(fs)
}

func (f *liveFlags) check(args []string) error {
	switch f.format {
	case "text":
	case "json":
		f.stitch = true
	default:
		return fmt.Errorf("unknown format %q (one of text, json)", f.format)
	}
	return f.checkSource(args)
}

// checkSource checks the flags of all commands that trace.
func (f *liveFlags) checkSource(args []string) error {
	switch f.mappings {
	case "auto", "perf", "query":
	default:
		return fmt.Errorf("unknown way to follow mappings %q (one of auto, perf, query)", f.mappings)
	}
	switch f.source {
	case sourceAuto, sourceText, sourceBinary:
	default:
		return fmt.Errorf("unknown source %q (one of auto, text, binary)", f.source)
	}
	if err := checkUnwind(f.unwind); err != nil {
		return err
	}
	if f.duration < 0 || f.bufferKB < 0 {
		return errors.New("--duration and -b must not be negative")
	}
	if len(f.command) > 0 && len(f.pids) > 0 {
		return errors.New("-p and a command cannot be combined")
	}
	if n := len(f.command); n > 0 && (len(args) == n || args[len(args)-n-1] != "--") {
		return fmt.Errorf("unexpected argument %q (a command to run goes after --)", f.command[0])
	}
	return f.parsePIDs()
}

// parsePIDs reads -p: numbers, also with commas between, as ps and perf take
// them.
func (f *liveFlags) parsePIDs() error {
	for _, arg := range f.pids {
		for word := range strings.SplitSeq(arg, ",") {
			pid, err := strconv.Atoi(word)
			if err != nil || pid <= 0 {
				return fmt.Errorf("-p takes process IDs, not %q", word)
			}
			f.tids = append(f.tids, pid)
		}
	}
	return nil
}
