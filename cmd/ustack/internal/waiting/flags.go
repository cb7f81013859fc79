package waiting

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"ustack/cmd/ustack/internal/destination"
	"ustack/render/profile"
	"ustack/render/wait"
	"ustack/tracefs"
)

// Flags select the output.
type Flags struct {
	Output
	Interval time.Duration // how often the report so far is shown
	To       destination.Flags
	json     bool
	verbose  bool // the whole text
	format   string
	minWait  time.Duration
}

// defaultTop is how many rows a section has.
const defaultTop = 5

// Register defines the flags.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text, markdown (for an issue or a message), json (one document), or of the waits and their stacks, for other programs: folded, pprof, speedscope or html")
	fs.BoolVar(&f.json, "json", false, "the same as --format=json")
	fs.BoolVar(&f.verbose, "v", false, "show all of the report, not only what fits onto a screen; --top with another number does, too")
	fs.IntVar(&f.View.Top, "top", defaultTop, "show the first `N` rows of each section, 0 for all")
	fs.StringVar((*string)(&f.View.By), "by", string(wait.ByStack), "a row for each `WHAT`: stack (a call, and where), call, kind, waker or thread")
	fs.DurationVar(&f.minWait, "min-wait", 0, "show rows with a wait of at least this `TIME`; all are counted")
	fs.DurationVar(&f.Interval, "interval", 0, "update the report every `TIME`, 0 for at the end only")
	f.To.Register(fs)
	f.To.RegisterOpen(fs, &f.format)
	fs.Func("comm", "only the waits of threads of this `NAME`", func(s string) error {
		f.View.Comms = append(f.View.Comms, s)
		return nil
	})
}

// IsText reports whether the flags ask for text.
func (f *Flags) IsText() bool { return f.format == "text" && !f.json }

// Check completes the Output.
func (f *Flags) Check() error {
	f.Brief = !f.verbose && f.View.Top == defaultTop
	f.View.MinWait = tracefs.Time(f.minWait.Nanoseconds())
	var err error
	switch {
	case f.Interval < 0:
		return errors.New("--interval must not be negative")
	case f.json && f.format != "text" && f.format != "json":
		return fmt.Errorf("--json and --format=%s cannot be combined", f.format)
	case f.json || f.format == "json":
		f.JSON = true
	case f.format == "markdown":
		if f.Markdown = true; f.Interval > 0 {
			err = errors.New("--interval is for text and JSON: Markdown is of the whole trace")
		}
	case f.format != "text":
		f.View.Top = 0
		f.Profile, err = profile.ParseFormat(f.format, "text", "markdown", "json")
		if f.Interval > 0 {
			err = errors.Join(err, errors.New("--interval is for text and JSON: a profile is of the whole trace"))
		}
	}
	return errors.Join(err, f.Output.Check())
}

// OnlyLive and OnlySaved are flags of the command that are for tracing now, and for saved
// traces.
func OnlyLive() []string {
	return []string{"p", "e", "duration", "b", "max-buffer", "save", "tracefs", "proc", "source", "unwind", "mappings", "maps-source", "interval"}
}

// OnlySaved is described at OnlyLive.
func OnlySaved() []string { return []string{"dialect", "maps", "sysroot", "perf-map"} }
