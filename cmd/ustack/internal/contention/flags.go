package contention

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/ustack/internal/output"
	"ustack/render/futex"
	futexreport "ustack/render/futex/report"
	"ustack/render/profile"
	"ustack/tracefs"
)

// Flags select the output. Check makes it what they say.
type Flags struct {
	Output
	// Format is the value of --format, as it is given.
	Format string
	// Interval is how often the answer so far is shown, nil if not said.
	Interval *time.Duration

	json    bool
	verbose bool // the whole text
	minWait time.Duration
}

// defaultTop is how many rows a section has.
const defaultTop = 5

// Register defines the flags.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.StringVar(&f.Format, "format", "text", "`FORMAT` of the output: text, markdown (for an issue or a message), json (one document), or of the waits and their stacks, for other programs: "+output.ProfileFormats())
	fs.BoolVar(&f.json, "json", false, "the same as --format=json")
	fs.BoolVar(&f.verbose, "v", false, "show all of the report, not only what fits onto a screen; --top with another number does, too")
	fs.BoolVar(&f.Blame, "blame", false, "in a profile, charge the time of waits to the stacks that released the lock")
	fs.IntVar(&f.View.Top, "top", defaultTop, "show the first `N` locks, waits and threads, 0 for all")
	fs.StringVar(&f.View.Sort, "sort", "auto", "`ORDER` of the locks: total, count, max or p99; auto is total, in a text by the critical path if that clearly has another lock first")
	fs.StringVar((*string)(&f.View.By), "by", string(futex.ByAuto), "a row for each `WHAT`: lock (each futex), object (all futexes of one thing), site (the code that waits) or kind; auto is object, in a text site if that says more")
	fs.DurationVar(&f.minWait, "min-wait", 0, "show locks and waits of at least this `TIME`; all are counted")
	impactFlags(fs, &f.Impact)
	fs.Func("comm", "only the locks of processes or threads of this `NAME`", func(s string) error {
		f.View.Comms = append(f.View.Comms, s)
		return nil
	})
}

// RegisterPIDs defines the flag of saved traces that selects processes.
func (f *Flags) RegisterPIDs(fs *flag.FlagSet) {
	fs.Func("p", "only the locks of these `PID`s, processes or threads (a list with commas)", func(list string) error {
		for s := range strings.SplitSeq(list, ",") {
			pid, err := strconv.ParseInt(s, 10, 32)
			if err != nil || pid < 1 {
				return fmt.Errorf("%q is not a PID or TID", s)
			}
			f.View.PIDs = append(f.View.PIDs, int32(pid))
		}
		return nil
	})
}

// RegisterInterval defines the flag of traces that are made now.
func (f *Flags) RegisterInterval(fs *flag.FlagSet) {
	fs.Func("interval", "update the report every `TIME`, 0 for at the end only (default 1s on a terminal, else 0)", func(text string) error {
		d, err := time.ParseDuration(text)
		if text == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a time like 1s", text)
		}
		f.Interval = &d
		return nil
	})
}

// IsText reports whether the flags ask for text.
func (f *Flags) IsText() bool { return f.Format == "text" && !f.json }

// Every returns how often the answer so far is shown, 0 for never.
func (f *Flags) Every() time.Duration {
	if f.Interval == nil {
		return 0
	}
	return *f.Interval
}

// Check completes the Output.
func (f *Flags) Check() error {
	f.Brief = !f.verbose && f.View.Top == defaultTop
	if err := f.checkFormat(); err != nil {
		return err
	}
	if err := f.View.Check(); err != nil {
		return err
	}
	if f.View.By == futex.ByAuto && f.Format != "text" { // which changes with the trace
		f.View.By = futex.ByObject
	}
	if f.View.Sort == "auto" && f.Format != "text" {
		f.View.Sort = "total"
	}
	f.View.MinWait = tracefs.Time(f.minWait.Nanoseconds())
	if f.View.Top < 0 || f.View.MinWait < 0 {
		return errors.New("--top and --min-wait must not be negative")
	}
	return futexreport.CheckBlame(f.Blame, f.Profile)
}

// checkFormat understands the format. All locks are in a profile.
func (f *Flags) checkFormat() error {
	if f.json {
		if f.Format != "text" && f.Format != "json" {
			return fmt.Errorf("--json and --format=%s cannot be combined", f.Format)
		}
		f.Format = "json"
	}
	f.JSON, f.Markdown = f.Format == "json", f.Format == "markdown"
	if f.Format == "text" || f.JSON || f.Markdown {
		return nil
	}
	if f.Interval != nil { // the default of a terminal is for text
		return errors.New("--interval is for text and JSON: a profile is of the whole trace")
	}
	var err error
	f.Profile, err = profile.ParseFormat(f.Format, "text", "markdown", "json")
	f.View.Top = 0
	return err
}
