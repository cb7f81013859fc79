package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/render/futex"
	futexreport "ustack/render/futex/report"
	"ustack/render/profile"
	"ustack/tracefs"
	"ustack/tracefs/input"
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
	json    bool
	format  string
	profile profile.Format // if format is one
	minWait time.Duration
	view    futex.View
	// interval is how often the answer so far is shown, nil if not said.
	interval *time.Duration
	owners   bool
	clock    string // of the trace, "" if unknown
}

// Limits for holding records back. Few are needed: a wait's stack is found at
// its end, too.
const (
	futexHoldBytes = 1 << 20
	futexHoldTime  = 2 * time.Second
	defaultTop     = 5
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
	f.define(fs)
	defineStrict(fs, &f.Strict)
	f.definePerfMap(fs)
	fs.BoolVar(&f.Quiet, "q", false, "no progress")
	fs.Func("p", "only the locks of these `PID`s, processes or threads (a list with commas)", f.addPIDs)
	f.viewFlags(fs)
	if err := command.Parse(fs, args, futexHelp, stdout); err != nil {
		return nil, err
	}
	return &f, errors.Join(f.parsed(fs.Args()), f.check())
}

// viewFlags defines the flags that say what is shown.
func (f *futexFlags) viewFlags(fs *flag.FlagSet) {
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text, json (one document), or of the waits and their stacks, for other programs: "+output.ProfileFormats())
	fs.BoolVar(&f.json, "json", false, "the same as --format=json")
	f.symbols.register(fs)
	fs.IntVar(&f.view.Top, "top", defaultTop, "show the first `N` locks, waits and threads, 0 for all")
	fs.StringVar(&f.view.Sort, "sort", "total", "`ORDER` of the locks: total, count, max or p99")
	fs.DurationVar(&f.minWait, "min-wait", 0, "show locks and waits of at least this `TIME`; all are counted")
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
	if orders := []string{"total", "count", "max", "p99"}; !slices.Contains(orders, f.view.Sort) {
		return fmt.Errorf("unknown order %q (one of %s)", f.view.Sort, strings.Join(orders, ", "))
	}
	f.view.MinWait = tracefs.Time(f.minWait.Nanoseconds())
	if f.view.Top < 0 || f.view.MinWait < 0 {
		return errors.New("--top and --min-wait must not be negative")
	}
	return nil
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
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	defer debug.SetGCPercent(debug.SetGCPercent(futexGarbage))
	a, err := f.run(std.In, std.Out, std.Messages())
	if a != nil && (err == nil || a.Seen()) {
		// What was read before an error is reported.
		err = errors.Join(err, f.report(std.Out, std.Messages(), a))
	}
	return err
}

// report names the functions, if that is wanted, and writes the report.
func (f *futexFlags) report(stdout, stderr io.Writer, a *futex.Analysis) error {
	names, err := f.symbols.Open(f.Sysroot, stderr)
	if err != nil {
		return err
	}
	if names != nil {
		defer names.Close()
	}
	return f.reportNamed(stdout, stderr, a, names, nil)
}

// reportNamed writes the report at the end. names may be nil, and so may a lock-up
// that was seen before.
func (f *futexFlags) reportNamed(stdout, stderr io.Writer, a *futex.Analysis, names *symbol.Symbols, lockUp *futex.Verdict) error {
	if names != nil {
		a.Name(names)
		a.NameLocks(names)
	}
	r := a.Report(f.view)
	if lockUp != nil && !r.Verdict.LockUp() {
		r.Verdict = *lockUp
		r.Verdict.Text += " That was seen shortly before the end; the waits have ended since, as they do when a program is killed."
	}
	write := f.write
	if f.eachWait() {
		write = f.writeWaits(a)
	}
	if err := write(render.Output(stdout), r, names); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if f.profile.Name != "" && !f.Quiet {
		writeNotes(stderr, r, f.eachWait())
	}
	return nil
}

// writeNotes prints what a profile has no place for: what the trace lacks. Profiles
// that show each wait also have the open ones.
func writeNotes(w io.Writer, r *futex.Report, eachWait bool) {
	for _, note := range r.Notes {
		fmt.Fprintf(w, "ustack: %s\n", note)
	}
	if r.Loss.Gaps > 0 {
		fmt.Fprintf(w, "ustack: places where records were lost, and waits may be missing: %d\n", r.Loss.Gaps)
	}
	if r.Loss.Refused > 0 {
		fmt.Fprintf(w, "ustack: records that the kernel refused, and waits may be missing: %d\n", r.Loss.Refused)
	}
	if n := len(r.Blocked); n > 0 && !eachWait {
		fmt.Fprintf(w, "ustack: waits that had not ended, and are left out: %d\n", n)
	}
}

// run reads the trace, and once more if records are lost in places that could
// not be foreseen.
func (f *futexFlags) run(stdin io.Reader, stdout, stderr io.Writer) (*futex.Analysis, error) {
	if err := output.CheckProfile(stdout, f.profile); err != nil {
		return nil, err
	}
	hold := resolve.Limits{Lines: pump.HoldLines, Bytes: futexHoldBytes, Time: tracefs.Time(futexHoldTime.Nanoseconds())}
	f.Own = true
	trace, err := f.Open(stdin, input.Options{Events: true, Bare: true}, resolve.Options{Hold: hold, Stitch: true})
	if err != nil {
		return nil, err
	}
	defer trace.Close()
	opt := futex.Options{Calls: f.eachWait()}
	f.clock = trace.Clock()
	if ev := trace.Dump(); ev != nil {
		opt.Mappings = ev
		if f.symbols.On {
			opt.Layouts = ev
		}
	}
	a := futex.New(opt)
	_, err = trace.Read(func(*resolve.Resolver) render.Renderer { return a }, stderr)
	if err != nil || !a.NeedsGaps() {
		return a, err
	}
	opt.Gaps = a.Gaps()
	second := futex.New(opt)
	if ok, err := trace.ReadAgain(second, stderr); !ok || err != nil {
		second.DropCalls()
		return a, err
	}
	a.DropCalls()
	return second, nil
}

// eachWait reports whether the format shows each wait at its time.
func (f *futexFlags) eachWait() bool { return f.profile.Timed || f.profile.Page }

// writeWaits is write for such a format.
func (f *futexFlags) writeWaits(a *futex.Analysis) func(io.Writer, *futex.Report, *symbol.Symbols) error {
	return func(w io.Writer, r *futex.Report, names *symbol.Symbols) error {
		defer a.DropCalls()
		if f.profile.Page {
			return futexreport.HTML(w, a, r, f.view, output.SymbolsOf(names))
		}
		return futexreport.Perfetto(w, a, r, f.view, output.PerfettoOptions(f.clock, names))
	}
}

func (f *futexFlags) write(w io.Writer, r *futex.Report, names *symbol.Symbols) error {
	switch {
	case f.profile.Write != nil:
		return output.WriteProfile(w, f.profile, futexreport.Profile(r), names)
	case f.format == "json":
		return futexreport.JSON(w, r)
	}
	return futexreport.Text(w, r, futexreport.Options{Top: f.view.Top})
}
