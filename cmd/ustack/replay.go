package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

const replayHelp = `usage: ustack replay [flags] [FILE... | -]

Gives every frame of the user stacks in a saved trace its file: path, build ID
and offset. Reads the text of trace_pipe, trace or trace-cmd report, plain,
gzip or zstd, from standard input if no FILE is given. Several FILEs are one
trace, merged by time.

  cat /sys/kernel/tracing/trace_pipe > t; ustack replay t
  ustack replay --format=json t.zst | jq 'select(.stack)'
  ustack replay --stitch main.txt maps.txt

Exit codes: 0 ok, 1 failure, 2 usage, 3 with --fail-on-loss, 4 with
--max-unresolved.

`

// replayFlags are the flags of replay.
type replayFlags struct {
	quiet         bool
	format        string
	buildID       render.BuildIDStyle
	dialect       resolve.Dialect
	keepMaps      bool
	stitch        bool
	failOnLoss    bool
	maxUnresolved float64
	hold          resolve.Limits
	holdTime      time.Duration
	pause         time.Duration
	maps          string
	sysroot       string
	files         []string
}

// Limits for holding records back. In the captures, of a slow machine with four
// CPUs, an announcement comes at most 13 ms, 157 lines and 10 KB after its
// stack; these leave room for many more CPUs. Stitching holds for longer: tasks
// sleep.
const (
	defaultHoldLines  = 200_000
	defaultHoldBytes  = 4 << 20
	defaultHoldTime   = time.Second
	stitchedHoldTime  = 10 * time.Second
	defaultHoldPause  = 200 * time.Millisecond
	unlimitedPercents = 100
)

func parseReplay(args []string, stdout io.Writer) (*replayFlags, error) {
	var f replayFlags
	fs := flag.NewFlagSet("replay", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.BoolVar(&f.quiet, "q", false, "no totals and no progress")
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text or json (lines)")
	buildID := fs.String("build-id", "kernel", "`FORM` of build IDs in text: kernel (words), hex (as readelf -n) or none")
	dialect := fs.String("dialect", "auto", "`DIALECT` of the stacks: auto, plain, offset, inode, hash, resolved, stock, or D0 to D5")
	fs.BoolVar(&f.keepMaps, "keep-maps", false, "keep mapping events in the text")
	fs.BoolVar(&f.stitch, "stitch", false, "print each event's stack under the event")
	fs.BoolVar(&f.failOnLoss, "fail-on-loss", false, "exit with 3 if events were lost")
	fs.Float64Var(&f.maxUnresolved, "max-unresolved", unlimitedPercents, "exit with 4 if more than `PERCENT` of the frames have no file")
	fs.Int64Var(&f.hold.Lines, "hold-lines", defaultHoldLines, "hold a record back for at most `N` lines, 0 for no bound")
	fs.Int64Var(&f.hold.Bytes, "hold-bytes", 0, "hold a record back for at most `N` bytes (default 4 MiB)")
	fs.DurationVar(&f.holdTime, "hold-time", 0, "hold a record back for at most this `TIME` of the trace (default 1s, 10s when stacks are put to events)")
	fs.DurationVar(&f.pause, "hold-pause", defaultHoldPause, "let all go when the input pauses for this `TIME`")
	fs.StringVar(&f.maps, "maps", "", "hold announcements against the mappings in `DUMP` (ustack maps --save, or a folder or tar of PID.maps), and look raw addresses up there")
	fs.StringVar(&f.sysroot, "sysroot", "", "with --maps: `DIR` with the ELF files at their paths, for a look at the code")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, replayHelp)
			fs.SetOutput(stdout)
			fs.PrintDefaults()
		}
		return nil, err
	}
	f.files = fs.Args()
	var errs [2]error
	f.buildID, errs[0] = render.ParseBuildIDStyle(*buildID)
	f.dialect, errs[1] = resolve.ParseDialect(*dialect)
	return &f, errors.Join(errs[0], errs[1], f.check())
}

func (f *replayFlags) check() error {
	switch f.format {
	case "text":
	case "json":
		f.stitch = true
	default:
		return fmt.Errorf("unknown format %q (one of text, json)", f.format)
	}
	if f.hold.Bytes < 0 || f.hold.Lines < 0 || f.holdTime < 0 || f.pause < 0 {
		return errors.New("limits for holding back must not be negative")
	}
	if f.hold.Bytes == 0 {
		f.hold.Bytes = defaultHoldBytes
	}
	if !(f.maxUnresolved >= 0 && f.maxUnresolved <= 100) {
		return errors.New("--max-unresolved takes 0 to 100")
	}
	if f.holdTime == 0 {
		f.holdTime = defaultHoldTime
		if f.stitch {
			f.holdTime = stitchedHoldTime
		}
	}
	f.hold.Time = tracefs.Time(f.holdTime.Nanoseconds())
	fromStdin := 0
	for _, name := range f.files {
		if name == "-" {
			fromStdin++
		}
		if strings.HasPrefix(name, "--") {
			return fmt.Errorf("flags go before the files: %s", name)
		}
	}
	if fromStdin > 1 {
		return errors.New("standard input can be read only once")
	}
	if len(f.files) == 0 {
		f.files = []string{"-"}
	}
	return nil
}

// replay is the subcommand.
func replay(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = render.Output(stderr)
	f, err := parseReplay(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "ustack replay: %v\n", err)
		return exitUsage
	}
	totals, err := f.run(stdin, stdout, stderr)
	if errors.Is(err, unix.EPIPE) {
		return exitOK
	}
	if totals != nil && !f.quiet && (err == nil || totals.Events+totals.Stacks > 0) {
		render.WriteTotals(stderr, totals)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ustack replay: %v\n", err)
		return exitFailure
	}
	return f.verdict(totals)
}

// verdict is the exit code of a trace that could be read.
func (f *replayFlags) verdict(t *resolve.Totals) int {
	if f.failOnLoss && (len(t.Lost) > 0 || t.Gaps > 0) {
		return exitLoss
	}
	if t.Frames > 0 && float64(t.Frames-t.Resolved())*100/float64(t.Frames) > f.maxUnresolved {
		return exitUnresolved
	}
	return exitOK
}

func (f *replayFlags) run(stdin io.Reader, stdout, stderr io.Writer) (*resolve.Totals, error) {
	ev, err := f.evidence(stdin)
	if err != nil {
		return nil, err
	}
	defer ev.close()
	noShapes := ev.judge != nil || ev.exact != nil
	trace, err := input.OpenAll(ev.files, stdin, input.Options{Events: f.stitch, Pause: f.pause, NoShapes: noShapes})
	if err != nil {
		return nil, err
	}
	opt := resolve.Options{Hold: f.hold, Stitch: f.stitch, Dialect: f.dialect, Sources: len(f.files), Evidence: ev.exact}
	if again := trace.Again(); again != nil {
		opt.First = input.NewFirsts(again).Find
		opt.Late = resolve.NewLateStacks(func(opt resolve.Options) error {
			trace, err := again(input.Options{NoShapes: noShapes})
			if err != nil {
				return err
			}
			_, err = pump(trace, resolve.New(opt), discard{}, func() {})
			return err
		})
	}
	out := render.Output(stdout)
	if ev.judge != nil {
		opt.Evidence = ev.judge
		if err := ev.gather(trace, opt); err != nil {
			return nil, err
		}
	}
	res := resolve.New(opt)
	var w render.Renderer
	if f.format == "json" {
		w = render.NewJSON(out, res, f.hold.Bytes)
	} else {
		w = render.NewText(out, render.TextOptions{BuildID: f.buildID, KeepMaps: f.keepMaps, Stitch: f.stitch})
	}
	progress := render.NewProgress(stderr, trace.Progress(), f.quiet || !render.IsTerminalWriter(stderr))
	defer progress.Done()
	return pump(trace, res, w, progress.Step)
}

// pump drives records from the trace through the resolver to the renderer, and
// calls step after each batch. What was read before an error is written before
// the error is returned.
func pump(r input.ReadCloser, res *resolve.Resolver, w render.Renderer, step func()) (*resolve.Totals, error) {
	p := input.NewPipe(r)
	defer p.Close()
	for {
		b, err := p.Next()
		paused := b.Paused
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := w.Batch(h); err != nil {
				return nil, fmt.Errorf("writing the output: %w", err)
			}
			p.Free(res.Release(h))
		}
		if paused {
			if err := w.Flush(); err != nil {
				return nil, fmt.Errorf("writing the output: %w", err)
			}
		}
		step()
		if err == nil {
			continue
		}
		totals := res.Totals()
		if cerr := w.Close(totals); cerr != nil {
			return nil, fmt.Errorf("writing the output: %w", cerr)
		}
		if err == io.EOF {
			err = nil
		}
		return totals, err
	}
}
