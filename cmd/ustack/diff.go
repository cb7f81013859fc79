//go:build !device

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/destination"
	"ustack/render"
	"ustack/render/futex/diff"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	common    traceFlags
	opt       diff.Options
	maps      [2]string
	sysroots  [2]string
	json      bool
	verbose   bool
	noSymbols bool
	files     []string
	to        destination.Flags
}

func parseDiff(args []string, stdout io.Writer) (*diffFlags, error) {
	f := diffFlags{opt: diff.Options{Norm: diff.PerSecond, Threshold: diff.DefaultThreshold}}
	fs := command.NewFlags("diff")
	f.define(fs)
	if err := command.ParseOperands(fs, args, help.Usage("diff"), stdout); err != nil {
		return nil, err
	}
	if f.files = fs.Args(); len(f.files) != 2 {
		return nil, errors.New("two files are needed, A and B")
	}
	f.common.symbols.On = !f.noSymbols
	return &f, errors.Join(f.common.parsed(f.files), f.opt.Check())
}

func (f *diffFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.common.dialectName, "dialect", "auto", "`DIALECT` of the stacks, see ustack replay --help")
	fs.StringVar((*string)(&f.opt.Norm), "per", string(diff.PerSecond), "compare the time that threads wait per `NORM`: second (of trace), wait, or total")
	fs.Func("threshold", "ignore differences of less than `PERCENT` of the larger value (default 25%)", f.threshold)
	for i, side := range [...]string{"a", "b"} {
		fs.StringVar(&f.maps[i], "maps-"+side, "", "the mappings of "+strings.ToUpper(side)+", a `DUMP` of ustack maps --save")
		fs.StringVar(&f.sysroots[i], "sysroot-"+side, "", "`DIR` with the ELF files of "+strings.ToUpper(side)+" at their paths")
	}
	fs.BoolVar(&f.noSymbols, "no-symbols", false, "do not name the functions of traces")
	fs.Var((*command.List)(&f.common.symbols.DebugDirs), "debug-dir", "look for debug information in `DIR`, too; may be repeated")
	f.to.Register(fs)
	fs.BoolVar(&f.json, "json", false, "write one JSON document")
	fs.BoolVar(&f.verbose, "v", false, "show all changes, with errors and bounds")
	fs.BoolVar(&f.common.Quiet, "q", false, "no progress")
}

func (f *diffFlags) threshold(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if f.opt.Threshold = v / 100; err != nil {
		return fmt.Errorf("%q is no percentage", text)
	}
	return nil
}

// exitDiffers is the exit code of diff for differences; an error's is that of a usage error.
const exitDiffers = 1

// diffCommand is the subcommand.
func diffCommand(args []string, std command.Streams) error {
	f, err := parseDiff(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	d, err := f.run(std)
	if err != nil {
		return command.UsageError(err)
	}
	if d.Differs() {
		return command.Exit(exitDiffers)
	}
	return nil
}

func (f *diffFlags) run(std command.Streams) (*diff.Diff, error) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	defer debug.SetGCPercent(debug.SetGCPercent(futexGarbage))
	var reports [2]*diff.Report
	for i, name := range f.files {
		from := f.common.Options
		from.Files, from.Maps, from.Sysroot = []string{name}, f.maps[i], f.sysroots[i]
		var err error
		if reports[i], err = contention.ReadCompared(&from, &f.common.symbols.Options, std.In, std.Messages()); err != nil {
			return nil, fmt.Errorf("%.200q: %w", name, err)
		}
	}
	d, err := diff.Compare(reports[0], reports[1], f.opt)
	if err != nil {
		return nil, err
	}
	err = f.to.Send(std.Out, !f.json, func(w io.Writer) error {
		if f.json {
			return diff.JSON(w, d)
		}
		return diff.Text(render.Output(w), d, f.verbose)
	})
	if err != nil {
		return nil, fmt.Errorf("writing the output: %w", err)
	}
	return d, nil
}
