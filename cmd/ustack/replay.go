package main

import (
	"errors"
	"flag"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/profile"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	traceFlags
	format        string
	events        output.EventFormat // if format is one
	profile       profile.Format     // else
	buildID       render.BuildIDStyle
	keepMaps      bool
	stitch        bool
	escape        bool
	failOnLoss    bool
	maxUnresolved float64
	hold          resolve.Limits
	holdTime      time.Duration
	pause         time.Duration
	noTemplates   bool // each stack by itself
	to            destination.Flags
	buildIDName   string // not yet understood
}

// unlimitedPercents is the default of --max-unresolved.
const unlimitedPercents = 100

func parseReplay(args []string, stdout io.Writer) (*replayFlags, error) {
	var f replayFlags
	fs := command.NewFlags("replay")
	f.defineAll(fs)
	if err := command.ParseOperands(fs, args, help.Usage("replay"), stdout); err != nil {
		return nil, err
	}
	return &f, f.complete(fs.Args())
}

// defaultReplay returns the flags for files without any flag said, as far as change
// does not set them.
func defaultReplay(files []string, change func(*replayFlags)) (*replayFlags, error) {
	var f replayFlags
	f.defineAll(command.NewFlags("replay"))
	change(&f)
	return &f, f.complete(files)
}

// defineAll defines all flags, and gives them their defaults.
func (f *replayFlags) defineAll(fs *flag.FlagSet) {
	f.define(fs)
	defineStrict(fs, &f.Strict)
	f.definePerfMap(fs)
	fs.BoolVar(&f.Quiet, "q", false, "no totals and no progress")
	f.to.RegisterFile(fs)
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: "+output.AllFormatWords())
	command.JSON(fs)
	fs.StringVar(&f.buildIDName, "build-id", "kernel", "`FORM` of build IDs in text: kernel (words), hex (as readelf -n) or none")
	fs.BoolVar(&f.keepMaps, "keep-maps", false, "keep file mapping events in the text")
	fs.BoolVar(&f.stitch, "stitch", false, "print each event's stack under the event")
	fs.BoolVar(&f.escape, "escape", false, "write control characters in names and arguments as octal escapes, also of a trace that the kernel has printed")
	fs.BoolVar(&f.failOnLoss, "fail-on-loss", false, "exit with 3 if events were lost")
	fs.Float64Var(&f.maxUnresolved, "max-unresolved", unlimitedPercents, "exit with 4 if more than `PERCENT` of the frames have no file")
	fs.Int64Var(&f.hold.Lines, "hold-lines", pump.HoldLines, "keep a record pending for at most `N` lines, 0 means unlimited")
	fs.Int64Var(&f.hold.Bytes, "hold-bytes", 0, "keep a record pending for at most `N` bytes (default 1 MiB, 2 MiB when stacks go to their events)")
	fs.DurationVar(&f.holdTime, "hold-time", 0, "keep a record pending for at most this `TIME` of the trace (default 1s, 10s when stacks go to their events)")
	fs.DurationVar(&f.pause, "hold-pause", pump.HoldPause, "print all pending records when the input pauses for this `TIME`")
	f.symbols.register(fs)
	f.symbols.registerNetwork(fs)
	f.StackMaps.Define(fs)
}

// complete checks the flags and takes the names of the files.
func (f *replayFlags) complete(files []string) error {
	var err error
	f.buildID, err = render.ParseBuildIDStyle(f.buildIDName)
	return errors.Join(err, f.StackMaps.Check(files), f.parsed(files), f.check())
}

func (f *replayFlags) check() error {
	var err error
	if f.events, f.profile, err = output.ParseFormat(f.format); err != nil {
		return err
	}
	f.stitch = f.stitch || f.events.Stitched || f.events.New == nil
	if f.hold.Bytes < 0 || f.hold.Lines < 0 || f.holdTime < 0 || f.pause < 0 {
		return errors.New("the --hold limits must not be negative")
	}
	if f.hold.Bytes == 0 {
		f.hold.Bytes = pump.HoldBytes
		if f.stitch {
			f.hold.Bytes = pump.StitchedHoldBytes
		}
	}
	if !(f.maxUnresolved >= 0 && f.maxUnresolved <= 100) {
		return errors.New("--max-unresolved takes 0 to 100")
	}
	if f.holdTime == 0 {
		f.holdTime = pump.HoldTime
		if f.stitch {
			f.holdTime = pump.StitchedHoldTime
		}
	}
	f.hold.Time = tracefs.Time(f.holdTime.Nanoseconds())
	return nil
}

// replay is the subcommand.
func replay(args []string, std command.Streams) error {
	f, err := parseReplay(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	var totals *resolve.Totals
	err = f.to.Stream(std.Out, func(w io.Writer) (err error) {
		totals, err = f.run(std.In, w, std.Messages())
		return err
	})
	if errors.Is(err, unix.EPIPE) {
		return err // without totals
	}
	if totals != nil && !f.Quiet && (err == nil || totals.Events+totals.Stacks > 0) {
		render.WriteTotals(std.Messages(), totals)
	}
	if err != nil {
		return err
	}
	return command.Exit(f.verdict(totals))
}

// verdict returns the exit code of a trace that could be read.
func (f *replayFlags) verdict(t *resolve.Totals) int {
	if f.failOnLoss && (len(t.Lost) > 0 || t.Gaps > 0) {
		return exitLoss
	}
	if t.Frames > 0 && float64(t.Frames-t.Resolved())*100/float64(t.Frames) > f.maxUnresolved {
		return exitUnresolved
	}
	return exitOK
}

// run replays to the output that the flags ask for.
func (f *replayFlags) run(stdin io.Reader, stdout, stderr io.Writer) (*resolve.Totals, error) {
	if err := output.CheckProfile(stdout, f.profile); err != nil {
		return nil, err
	}
	w := render.Output(stdout)
	f.Lines = render.IsTerminalWriter(w)
	return f.drive(stdin, stderr, func(trace *saved.Trace, res *resolve.Resolver, names *symbolize.Symbols) render.Renderer {
		switch {
		case f.profile.Timed:
			return output.NewTimedProfile(w, trace.Perfetto(), names)
		case f.profile.Write != nil:
			return output.NewEventProfile(w, f.profile, names, f.Progress())
		}
		opt := output.Events{
			Wait: f.hold.Bytes,
			Text: render.TextOptions{BuildID: f.buildID, KeepMaps: f.keepMaps, Stitch: f.stitch},
		}
		return output.Named(f.events.New(w, opt, res), names)
	})
}

// drive replays to a renderer. names are nil without --symbols.
func (f *replayFlags) drive(stdin io.Reader, stderr io.Writer, renderer func(trace *saved.Trace, res *resolve.Resolver, names *symbolize.Symbols) render.Renderer) (*resolve.Totals, error) {
	f.Messages = stderr
	names, err := f.symbols.Open(f.Sysroot, f.Progress())
	if err != nil {
		return nil, err
	}
	if names != nil {
		defer names.Close()
	}
	f.Own, f.DebugDirs, f.Fetch = true, f.symbols.DebugDirs, f.symbols.Fetch
	in := input.Options{Events: f.stitch, Stitched: f.stitch, Escape: f.escape, Pause: f.pause, NoTemplates: f.noTemplates}
	trace, err := f.Open(stdin, in, resolve.Options{Hold: f.hold, Stitch: f.stitch})
	if err != nil {
		return nil, err
	}
	defer trace.Close()
	trace.FindLateStacks()
	return trace.Read(func(res *resolve.Resolver) render.Renderer { return renderer(trace, res, names) }, stderr)
}
