package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/maps"
	"ustack/cmd/ustack/internal/pids"
	"ustack/filemap/procmap"
)

// mapsFlags are the flags of maps.
type mapsFlags struct {
	maps.Job
	source mapsSource
	to     destination.Flags
	names  command.List // of processes
}

// mapsSource is --maps-source, of all commands that read mappings.
type mapsSource struct{ procmap.Source }

func (s *mapsSource) register(fs *flag.FlagSet) {
	fs.Var(s, "maps-source", "read mappings by `SOURCE`: auto, ioctl (PROCMAP_QUERY) or text; build IDs come from the files")
}

// Set implements flag.Value.
func (s *mapsSource) Set(word string) (err error) {
	s.Source, err = procmap.ParseSource(word)
	return err
}

func parseMaps(args []string, stdout io.Writer) (*mapsFlags, error) {
	var f mapsFlags
	fs := command.NewFlags("maps")
	fs.BoolVar(&f.All, "all", false, "mappings that are not executable too")
	fs.BoolVar(&f.Files, "files", false, "a row for each distinct file, with the number of processes")
	fs.BoolVar(&f.JSON, "json", false, "JSON, an object a line")
	fs.StringVar(&f.Save, "save", "", "write a dump of all mappings to `FILE` (a tar archive; - is standard output)")
	fs.DurationVar(&f.Poll, "poll", 0, "with --save: read the processes again every `TIME` until SIGINT, and save what changes")
	fs.StringVar(&f.Addr, "addr", "", "print what `ADDRESS` is in a process; - reads many from standard input")
	fs.Var(&f.names, "p", "list the process `PID` (or PID,PID or name:REGEX), as an argument does; may be repeated")
	f.source.register(fs)
	f.to.RegisterFile(fs)
	// Flags may stand between and after the PIDs.
	for rest := args; ; {
		if err := command.Parse(fs, rest, help.Usage("maps"), stdout); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		if err := f.argument(fs.Arg(0)); err != nil {
			return nil, err
		}
		rest = fs.Args()[1:]
	}
	named, err := pids.Parse("/proc", f.names)
	f.PIDs = append(f.PIDs, named...)
	fs.Visit(func(given *flag.Flag) {
		if given.Value.String() == "" {
			err = fmt.Errorf("--%s is empty", given.Name)
		}
	})
	if err != nil {
		return nil, err
	}
	return &f, f.check()
}

// argument takes a PID, or a file.
func (f *mapsFlags) argument(arg string) error {
	pid, err := strconv.ParseInt(arg, 10, 32)
	if err == nil && pid > 0 {
		f.PIDs = append(f.PIDs, int(pid))
		return nil
	}
	info, serr := os.Stat(arg)
	switch {
	case err == nil, serr != nil && !strings.ContainsAny(arg, "./"):
		return fmt.Errorf("%q is not a PID", arg)
	case serr != nil:
		return fmt.Errorf("%q is not a PID, and no file: %w", arg, serr)
	case info.IsDir():
		return fmt.Errorf("%q is not a PID, nor a trace.dat", arg)
	case f.File != "":
		return fmt.Errorf("%q is a second trace.dat", arg)
	}
	f.File = arg
	return nil
}

func (f *mapsFlags) check() error {
	switch {
	case f.File != "" && f.Save != "":
		return errors.New("--save needs live processes: a trace.dat lacks parts of a dump")
	case f.File != "" && f.Addr != "" && len(f.PIDs) == 0:
		return errors.New("--addr takes one PID, also of a trace.dat")
	case f.Addr != "" && len(f.PIDs) != 1:
		return errors.New("--addr takes one PID")
	case f.Addr != "" && (f.Files || f.Save != "" || f.All):
		return errors.New("--addr goes with no other flags than --json and --maps-source")
	case f.Save != "" && (f.Files || f.JSON || f.All):
		return errors.New("--save goes with no other flags than --poll and --maps-source")
	case f.Poll != 0 && (f.Save == "" || f.Poll < maps.MinPoll):
		return fmt.Errorf("--poll needs --save, and a time of %v or more", maps.MinPoll)
	}
	return nil
}

// mapsCommand is the subcommand.
func mapsCommand(args []string, std command.Streams) error {
	f, err := parseMaps(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	f.Source = f.source.Source
	return f.to.Stream(std.Out, func(w io.Writer) error {
		std.Out = w
		return f.Run(std)
	})
}
