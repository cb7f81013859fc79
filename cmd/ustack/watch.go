package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ustack/render"
	"ustack/render/intake"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

const watchHelp = `usage: ustack watch [flags] --out DIR FOLDER

Waits for reports in FOLDER, and writes for each one what replay or futex makes of
it to DIR/NAME.FORMAT. A file is taken when it has not changed for a while and has
its end; names that end in .partial, .part or .tmp, and hidden ones, are waited
for to be renamed. What cannot be read goes to FOLDER/rejected, with the reason in
NAME.reason. A report whose result is there is not done again, also after a
restart.

Exit codes: 0 ended by SIGTERM or SIGINT, 1 failure, 2 usage.

`

// watchFlags are the flags of watch.
type watchFlags struct {
	folder intake.Folder
	format string
	once   bool
	quiet  bool
}

// watchFormats are what can be made of a report.
var watchFormats = map[string][]string{
	"text":       {"replay", "-q"},
	"stitch":     {"replay", "-q", "--stitch"},
	"json":       {"replay", "-q", "--format=json"},
	"futex":      {"futex", "-q"},
	"futex-json": {"futex", "-q", "--json"},
}

const defaultSettle, defaultGiveUp = time.Second, time.Minute

func parseWatch(args []string, stdout io.Writer) (*watchFlags, error) {
	var f watchFlags
	fs := newFlags("watch")
	fs.StringVar(&f.folder.Out, "out", "", "write results to the folder `DIR`")
	fs.StringVar(&f.format, "format", "futex", "`FORMAT` of the results: text, stitch or json (replay), futex or futex-json")
	fs.DurationVar(&f.folder.Settle, "settle", defaultSettle, "take a file that has not changed for this `TIME`")
	fs.DurationVar(&f.folder.GiveUp, "give-up", defaultGiveUp, "reject a file whose end is missing after this `TIME` without a change")
	fs.BoolVar(&f.once, "once", false, "end when all that is there is done")
	fs.BoolVar(&f.quiet, "q", false, "say nothing of what is done")
	if err := parseFlags(fs, args, watchHelp, stdout); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() != 1:
		return nil, errors.New("which FOLDER? One, behind the flags")
	case f.folder.Out == "":
		return nil, errors.New("--out DIR is missing")
	case watchFormats[f.format] == nil:
		return nil, fmt.Errorf("unknown format %q (one of text, stitch, json, futex, futex-json)", f.format)
	case f.folder.Settle <= 0 || f.folder.GiveUp < f.folder.Settle:
		return nil, errors.New("--settle must be positive, and --give-up not less")
	}
	f.folder.Dir, f.folder.Suffix = fs.Arg(0), "."+f.format
	return &f, f.apart()
}

// apart checks that results do not arrive as reports.
func (f *watchFlags) apart() error {
	dir, err := filepath.Abs(f.folder.Dir)
	if err != nil {
		return fmt.Errorf("finding the folder: %w", err)
	}
	out, err := filepath.Abs(f.folder.Out)
	if err != nil {
		return fmt.Errorf("finding the folder: %w", err)
	}
	if dir == out {
		return errors.New("reports and results cannot be in one folder")
	}
	f.folder.Dir = dir // a name that begins with "-" is a file
	return nil
}

// watchCommand is the subcommand.
func watchCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	stderr = render.Output(stderr)
	f, err := parseWatch(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "ustack watch: %v\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f.folder.Do = f.do
	f.folder.Told = func(name string, err error) {
		switch {
		case err != nil:
			fmt.Fprintf(stderr, "ustack watch: rejected %q: %v\n", name, err)
		case !f.quiet:
			fmt.Fprintf(stderr, "ustack watch: %q is done\n", name)
		}
	}
	if err := f.folder.Run(ctx, f.once); err != nil {
		fmt.Fprintf(stderr, "ustack watch: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// do verifies a report and makes of it what was asked for.
func (f *watchFlags) do(report string, out io.Writer) error {
	if err := verify(report); err != nil {
		return err
	}
	args := append(watchFormats[f.format][:len(watchFormats[f.format]):len(watchFormats[f.format])], report)
	var said bytes.Buffer
	if code := run(args, strings.NewReader(""), out, &said); code != exitOK {
		return errors.New(strings.TrimSpace(said.String()))
	}
	return nil
}

// verify reads a report to its end.
func verify(report string) error {
	if info, err := os.Stat(report); err == nil && info.Size() == 0 {
		return intake.ErrEmpty
	}
	trace, err := input.OpenAll([]string{report}, nil, input.Options{})
	if err != nil {
		return err
	}
	defer trace.Close()
	var b tracefs.Batch
	for {
		switch err := trace.Next(&b); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
