package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/destination"
	"ustack/render"
)

// futexFlags are the flags of futex.
type futexFlags struct {
	traceFlags
	view   contention.Flags
	to     destination.Flags
	owners bool
	sums   bool // --source=bpf
}

const (
	// futexMemory is memoryLimit for the analysis, which keeps more: ten
	// million events must do with 256 MB.
	futexMemory = 192 << 20
	// futexGarbage lets the heap grow to four times what is in use, within
	// that.
	futexGarbage = 300
)

func parseFutex(args []string, stdout io.Writer) (*futexFlags, error) {
	var f futexFlags
	fs := command.NewFlags("futex")
	f.defineAll(fs)
	if err := command.ParseOperands(fs, args, help.Usage("futex"), stdout); err != nil {
		return nil, err
	}
	return &f, errors.Join(command.Files(args, fs.Args(), "ustack futex --live"), f.complete(fs.Args()))
}

// defaultFutex returns the flags for files without any flag said, as far as change
// does not set them.
func defaultFutex(files []string, change func(*futexFlags)) (*futexFlags, error) {
	var f futexFlags
	f.defineAll(command.NewFlags("futex"))
	change(&f)
	return &f, f.complete(files)
}

// defineAll defines all flags, and gives them their defaults.
func (f *futexFlags) defineAll(fs *flag.FlagSet) {
	f.define(fs)
	defineStrict(fs, &f.Strict)
	f.definePerfMap(fs)
	fs.BoolVar(&f.Quiet, "q", false, "no progress")
	f.view.RegisterPIDs(fs)
	f.viewFlags(fs)
}

// complete checks the flags and takes the names of the files.
func (f *futexFlags) complete(files []string) error {
	return errors.Join(f.parsed(files), f.view.Check())
}

// viewFlags defines the flags that select the output.
func (f *futexFlags) viewFlags(fs *flag.FlagSet) {
	f.view.Register(fs)
	f.to.Register(fs)
	f.to.RegisterOpen(fs, &f.view.Format)
	f.symbols.register(fs)
}

// futexCommand is the subcommand.
func futexCommand(args []string, std command.Streams) error {
	if rest, ok := cutLive(args); ok {
		return futexLive(rest, std)
	}
	f, err := parseFutex(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	if in, ok := std.In.(*os.File); ok && slices.Equal(f.Files, []string{"-"}) && len(f.view.View.PIDs) > 0 && render.IsTerminal(in) {
		return command.UsageError(errors.New("-p selects what a FILE has of a process, and none is named; to trace it now: ustack futex --live -p PID"))
	}
	return f.to.Streams(std, f.view.IsText(), f.run)
}

// cutLive takes --live off the arguments of this program, where it may stand anywhere.
func cutLive(args []string) ([]string, bool) {
	for i, arg := range args {
		switch arg {
		case "--":
			return args, false
		case "--live", "-live":
			return slices.Concat(args[:i], args[i+1:]), true
		}
	}
	return args, false
}

// run reads the trace and writes the report.
func (f *futexFlags) run(std command.Streams) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	defer debug.SetGCPercent(debug.SetGCPercent(futexGarbage))
	out := f.output()
	return out.Run(&f.Options, &f.symbols.Options, std.In, std.Out, std.Messages())
}

// output returns what the report shows, and how it is written.
func (f *futexFlags) output() contention.Output {
	out := f.view.Output
	out.Quiet = f.Quiet
	return out
}
