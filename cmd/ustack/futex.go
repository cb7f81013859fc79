package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/output"
	"ustack/render/futex"
	futexreport "ustack/render/futex/report"
	"ustack/render/profile"
	"ustack/tracefs"
)

const futexHelp = `usage: ustack futex [flags] [FILE... | -]

Reports who waits for which lock in a saved trace: which futexes threads wait on,
for how long, where in which program, who released them, who held the lock, and
what hangs at the end. Needs the events sys_enter_futex and sys_exit_futex;
sched_switch and sched_waking make it surer. Reads what replay reads. Manual:
ustack help futex.

  ustack futex trace.zst
  ustack futex --maps maps.tar --json trace.txt | jq '.locks[0]'
  ustack futex --format=pprof trace.zst > waits.pb.gz
  ustack futex --live -- ./program    # traces now, see ustack futex --live --help

Exit codes: 0 ok, 1 failure, 2 usage.

`

// futexFlags are the flags of futex.
type futexFlags struct {
	traceFlags
	json, blame bool
	verbose     bool // the whole text
	format      string
	profile     profile.Format // if format is one
	minWait     time.Duration
	view        futex.View
	impact      futex.ImpactView
	// interval is how often the answer so far is shown, nil if not said.
	interval *time.Duration
	owners   bool
}

const (
	defaultTop = 5
	// futexMemory is memoryLimit for the analysis, which keeps more: ten
	// million events must do with 256 MB.
	futexMemory = 160 << 20
	// futexGarbage lets the heap grow to four times what is in use, within
	// that.
	futexGarbage = 300
)

func parseFutex(args []string, stdout io.Writer) (*futexFlags, error) {
	var f futexFlags
	fs := command.NewFlags("futex")
	f.defineAll(fs)
	if err := command.Parse(fs, args, futexHelp, stdout); err != nil {
		return nil, err
	}
	return &f, f.complete(fs.Args())
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
	fs.Func("p", "only the locks of these `PID`s, processes or threads (a list with commas)", f.addPIDs)
	f.viewFlags(fs)
}

// complete checks the flags and takes the names of the files.
func (f *futexFlags) complete(files []string) error {
	return errors.Join(f.parsed(files), f.check())
}

// viewFlags defines the flags that select the output.
func (f *futexFlags) viewFlags(fs *flag.FlagSet) {
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text, json (one document), or of the waits and their stacks, for other programs: "+output.ProfileFormats())
	fs.BoolVar(&f.json, "json", false, "the same as --format=json")
	fs.BoolVar(&f.verbose, "v", false, "show all of the report, not only what fits onto a screen; --top with another number does, too")
	fs.BoolVar(&f.blame, "blame", false, "in a profile, charge the time of waits to the stacks that released the lock")
	f.symbols.register(fs)
	fs.IntVar(&f.view.Top, "top", defaultTop, "show the first `N` locks, waits and threads, 0 for all")
	fs.StringVar(&f.view.Sort, "sort", "total", "`ORDER` of the locks: total, count, max or p99")
	fs.StringVar((*string)(&f.view.By), "by", string(futex.ByAuto), "a row for each `WHAT`: lock (each futex), object (all futexes of one thing), site (the code that waits) or kind; auto is object, in a text site if that says more")
	fs.DurationVar(&f.minWait, "min-wait", 0, "show locks and waits of at least this `TIME`; all are counted")
	contention.ImpactFlags(fs, &f.impact)
	fs.Func("comm", "only the locks of processes or threads of this `NAME`", func(s string) error {
		f.view.Comms = append(f.view.Comms, s)
		return nil
	})
}

func (f *futexFlags) addPIDs(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		pid, err := strconv.ParseInt(s, 10, 32)
		if err != nil || pid < 1 {
			return fmt.Errorf("%q is not a PID or TID", s)
		}
		f.view.PIDs = append(f.view.PIDs, int32(pid))
	}
	return nil
}

func (f *futexFlags) check() error {
	if err := f.checkFormat(); err != nil {
		return err
	}
	if err := f.view.Check(); err != nil {
		return err
	}
	if f.view.By == futex.ByAuto && f.format != "text" { // which changes with the trace
		f.view.By = futex.ByObject
	}
	f.view.MinWait = tracefs.Time(f.minWait.Nanoseconds())
	if f.view.Top < 0 || f.view.MinWait < 0 {
		return errors.New("--top and --min-wait must not be negative")
	}
	return futexreport.CheckBlame(f.blame, f.profile)
}

// checkFormat understands the format. All locks are in a profile.
func (f *futexFlags) checkFormat() error {
	if f.json {
		if f.format != "text" && f.format != "json" {
			return fmt.Errorf("--json and --format=%s cannot be combined", f.format)
		}
		f.format = "json"
	}
	if f.format == "text" || f.format == "json" {
		return nil
	}
	var err error
	f.profile, err = profile.ParseFormat(f.format, "text", "json")
	f.view.Top = 0
	return err
}

// futexCommand is the subcommand.
func futexCommand(args []string, std command.Streams) error {
	if len(args) > 0 && (args[0] == "--live" || args[0] == "-live") {
		return futexLive(args[1:], std)
	}
	f, err := parseFutex(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	return f.run(std)
}

// run reads the trace and writes the report.
func (f *futexFlags) run(std command.Streams) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	defer debug.SetGCPercent(debug.SetGCPercent(futexGarbage))
	if err := output.CheckProfile(std.Out, f.profile); err != nil {
		return err
	}
	out := f.output()
	a, err := out.Read(&f.Options, std.In, std.Messages())
	if a == nil || err != nil && !a.Seen() {
		return err
	}
	// What was read before an error is reported.
	names, nerr := f.symbols.Open(f.Sysroot, std.Messages())
	if nerr != nil {
		return errors.Join(err, nerr)
	}
	if names != nil {
		defer names.Close()
	}
	return errors.Join(err, out.Report(std.Out, std.Messages(), a, names, nil))
}

// output returns what the report shows, and how it is written.
func (f *futexFlags) output() contention.Output {
	return contention.Output{JSON: f.format == "json", Profile: f.profile, View: f.view, Quiet: f.Quiet, Blame: f.blame, Impact: f.impact,
		Brief: !f.verbose && f.view.Top == defaultTop}
}
