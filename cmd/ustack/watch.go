//go:build !device

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/internal/incoming"
	"ustack/render"
	"ustack/render/intake"
	"ustack/tracefs/nearest"
)

// watchFlags are the flags of watch.
type watchFlags struct {
	dir    intake.Directory
	format string
	once   bool
	quiet  bool
}

// watchFormats write what can be made of a report.
var watchFormats = map[string]func(report string, out io.Writer) error{
	"text":   watchReplay(func(f *replayFlags) {}),
	"stitch": watchReplay(func(f *replayFlags) { f.stitch = true }),
	"json":   watchReplay(func(f *replayFlags) { f.format = "json" }),

	"futex":      watchFutex("text"),
	"futex-json": watchFutex("json"),
}

// watchReplay writes what replay writes.
func watchReplay(change func(*replayFlags)) func(report string, out io.Writer) error {
	return func(report string, out io.Writer) error {
		f, err := defaultReplay([]string{report}, change)
		if err != nil {
			return err
		}
		f.Quiet = true
		_, err = f.run(nil, out, io.Discard)
		return err
	}
}

// watchFutex writes the report of futex.
func watchFutex(format string) func(report string, out io.Writer) error {
	return func(report string, out io.Writer) error {
		f, err := defaultFutex([]string{report}, func(f *futexFlags) { f.view.Format, f.Quiet = format, true })
		if err != nil {
			return err
		}
		return f.run(command.Streams{Out: out, Err: io.Discard})
	}
}

const defaultSettle, defaultGiveUp = time.Second, time.Minute

func parseWatch(args []string, stdout io.Writer) (*watchFlags, error) {
	var f watchFlags
	fs := command.NewFlags("watch")
	fs.StringVar(&f.dir.Out, "out", "", "write results to `DIR`")
	fs.StringVar(&f.format, "format", "futex", "`FORMAT` of the results: text, stitch or json (replay), futex or futex-json")
	command.JSON(fs)
	fs.DurationVar(&f.dir.Settle, "settle", defaultSettle, "take a file that has not changed for this `TIME`")
	fs.DurationVar(&f.dir.GiveUp, "give-up", defaultGiveUp, "reject a file whose end is missing after this `TIME` without a change")
	maxSize := fs.String("max-size", "4G", "reject a file of more than `BYTES` (suffix K, M or G), 0 means unlimited")
	fs.BoolVar(&f.once, "once", false, "process the reports that are there, then end")
	fs.BoolVar(&f.quiet, "q", false, "print nothing about processed reports")
	fs.String("push", "", "push each report to the server at `ADDRESS` instead, as ustack push does; --push= --help lists its flags")
	if err := command.Parse(fs, args, help.Usage("watch"), stdout); err != nil {
		return nil, err
	}
	var err error
	f.dir.MaxSize, err = command.ParseSize("--max-size", *maxSize)
	switch {
	case err != nil:
		return nil, err
	case fs.NArg() != 1:
		return nil, errors.New("one INBOX is required, after the flags")
	case f.dir.Out == "":
		return nil, errors.New("--out DIR is missing")
	case watchFormats[f.format] == nil:
		return nil, errors.New(nearest.Unknown("format", f.format, []string{"text", "stitch", "json", "futex", "futex-json"}))
	case f.dir.Settle <= 0 || f.dir.GiveUp < f.dir.Settle:
		return nil, errors.New("--settle must be positive, and --give-up not less")
	}
	f.dir.Dir, f.dir.Suffix = fs.Arg(0), "."+f.format
	return &f, f.apart()
}

// apart checks that results do not arrive as reports.
func (f *watchFlags) apart() error {
	dir, err := filepath.Abs(f.dir.Dir)
	if err != nil {
		return fmt.Errorf("resolving the directory: %w", err)
	}
	out, err := filepath.Abs(f.dir.Out)
	if err != nil {
		return fmt.Errorf("resolving the directory: %w", err)
	}
	if dir == out {
		return errors.New("INBOX and --out cannot be the same directory")
	}
	f.dir.Dir = dir // a name that begins with "-" is a file
	return nil
}

// watchCommand is the subcommand.
func watchCommand(args []string, std command.Streams) error {
	if fleet.Pushes(args) {
		return fleet.MainWatch(args, std)
	}
	f, err := parseWatch(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	stderr := std.Messages()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f.dir.Do = f.do
	f.dir.Log = func(name string, what intake.Result, err error) {
		switch {
		case what == intake.Rejected:
			fmt.Fprintf(stderr, "ustack watch: rejected %q: %s\n", name, logLine(err))
		case what == intake.Delayed:
			fmt.Fprintf(stderr, "ustack watch: %q is tried again later: %s\n", name, logLine(err))
		case !f.quiet:
			fmt.Fprintf(stderr, "ustack watch: %q is done\n", name)
		}
	}
	return f.dir.Run(ctx, f.once)
}

// logLine returns an error in one line of a log, with control characters as
// escapes: parts of it are the report's.
func logLine(err error) string {
	var b bytes.Buffer
	_, _ = render.NewSanitizer(&b).Write([]byte(err.Error())) // into memory
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// do verifies a report and converts it as requested.
func (f *watchFlags) do(report intake.Report, out io.Writer) error {
	if err := incoming.Check(report, f.dir.MaxSize); err != nil {
		return err
	}
	return incoming.Error(watchFormats[f.format](report.Copy, out), report)
}
