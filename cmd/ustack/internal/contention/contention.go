// Package contention analyses who waits for which lock, in a saved trace or while the
// trace is made, and writes the report.
//
// A report during the trace shows the waits so far, and changes nothing in the
// analysis. Memory is bounded by the analysis; a saved trace is read a second time
// only if records were lost in places that could not be foreseen.
package contention

import (
	"errors"
	"fmt"
	"io"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/futex"
	futexreport "ustack/render/futex/report"
	"ustack/render/lost"
	"ustack/render/perfetto"
	"ustack/render/profile"
	"ustack/render/redact"
	"ustack/render/stackset"
)

// Output is what the report shows, and how it is written: as text, without more.
type Output struct {
	JSON     bool
	Markdown bool
	Profile  profile.Format // if it has a name, for other programs
	View     futex.View
	Quiet    bool // no notes on standard error
	Blame    bool // the profile is of the stacks that ended the waits
	Impact   futex.ImpactView
	Brief    bool   // the text fits onto a screen
	Clock    string // of the trace, "" if unknown
	// Must has Run return ErrNone instead of a report that says so.
	Must bool
}

// ErrNone: a trace has no calls of futex, or not what waits are known by.
var ErrNone = errors.New("no waits at futexes")

// Report writes the report at the end. names may be nil, and so may a lock-up
// that was seen before.
func (o *Output) Report(stdout, stderr io.Writer, a *futex.Analysis, names *symbolize.Symbols, lockUp *futex.Verdict) error {
	line := render.Progress(stderr, o.Quiet)
	if names != nil {
		step := line.Begin("naming the functions", nil)
		a.Name(names)
		a.NameLocks(names)
		step.End()
	}
	if !render.IsTerminalWriter(render.Output(stdout)) {
		defer line.Begin("writing the report", nil).End()
	}
	r := a.Report(o.View)
	if lockUp != nil && !r.Verdict.LockUp() {
		r.Verdict = *lockUp
		r.Verdict.Ended = true
	}
	if o.Impact.On {
		r.Impact = a.Impact()
	}
	write := o.Write
	if o.eachWait() {
		write = o.writeWaits(a)
	}
	if err := write(render.Output(stdout), r); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if o.Profile.Name != "" && !o.Quiet {
		writeNotes(stderr, r, o.eachWait())
	}
	return nil
}

// writeNotes prints what a profile has no place for: what the trace lacks. Profiles
// that show each wait also have the open ones.
func writeNotes(w io.Writer, r *futex.Report, eachWait bool) {
	for _, note := range append(r.Hints[:len(r.Hints):len(r.Hints)], r.Notes...) {
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

// Read analyses a saved trace. The analysis needs the entries, which may be nil, until its last report.
func (o *Output) Read(from *saved.Options, entries stackset.Entries, stdin io.Reader, stderr io.Writer) (*futex.Analysis, error) {
	read := analysis.Saved[*futex.Analysis]{From: from, Drop: (*futex.Analysis).DropCalls, New: func(trace *saved.Trace, gaps *lost.Gaps) *futex.Analysis {
		opt := futex.Options{Calls: o.eachWait(), Impact: o.Impact, Order: o.View.Sort == "auto", GoHeap: redact.IsGoHeap, Gaps: gaps, Entries: entries}
		o.Clock = trace.Clock()
		if ev := trace.Dump(); ev != nil {
			opt.Mappings = ev
			if from.Symbols {
				opt.Layouts = ev
			}
		}
		if p := trace.Programs(); p != nil {
			opt.Programs = p
		}
		if l := trace.Layouts(); l != nil && from.Symbols {
			opt.Layouts = l
		}
		return futex.New(opt)
	}}
	return read.Read(stdin, stderr)
}

// Run reads a saved trace and writes the report. What was read before an error is
// reported.
func (o *Output) Run(from *saved.Options, opt *symbols.Options, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := output.CheckProfile(stdout, o.Profile); err != nil {
		return err
	}
	entries, err := symbolize.NewEntries(symbolize.Options{Sysroot: from.Sysroot})
	if err != nil {
		return err
	}
	defer entries.Close()
	a, err := o.Read(from, entries, stdin, stderr)
	if a == nil || err != nil && !a.Seen() {
		return err
	}
	if o.Must && err == nil {
		if r := a.Interim(futex.View{Top: 1}); r.Calls == 0 && !a.SumsOnly() || r.NoReturns {
			return ErrNone
		}
	}
	if a.SumsOnly() && (o.eachWait() || o.Blame || o.Impact.On) {
		return errors.Join(err, errors.New("this trace has sums and long waits by --source=bpf, not each call: text, JSON, or a profile of the stacks that waited"))
	}
	names, nerr := opt.Open(from.Sysroot, from.Progress())
	if nerr != nil {
		return errors.Join(err, nerr)
	}
	if names != nil {
		defer names.Close()
	}
	return errors.Join(err, o.Report(stdout, stderr, a, names, nil))
}

// eachWait reports whether the format shows each wait at its time.
func (o *Output) eachWait() bool { return o.Profile.Timed || o.Profile.Page }

// writeWaits is write for such a format.
func (o *Output) writeWaits(a *futex.Analysis) func(io.Writer, *futex.Report) error {
	return func(w io.Writer, r *futex.Report) error {
		defer a.DropCalls()
		a.KeepCalls()
		if o.Profile.Page {
			return futexreport.HTML(w, a, r, o.View, o.Blame)
		}
		return futexreport.Perfetto(w, a, r, o.View, perfetto.Options{Clock: o.Clock})
	}
}

// Write writes a report.
func (o *Output) Write(w io.Writer, r *futex.Report) error {
	switch {
	case o.Profile.Write != nil && o.Blame:
		return o.Profile.Write(w, futexreport.Blame(r))
	case o.Profile.Write != nil:
		return o.Profile.Write(w, futexreport.Profile(r))
	case o.JSON:
		return futexreport.JSON(w, r)
	case o.Markdown:
		return futexreport.Markdown(w, r, futexreport.Options{Top: o.View.Top})
	}
	return futexreport.Text(w, r, futexreport.Options{Top: o.View.Top, Brief: o.Brief})
}

// Summed writes the report at the end, of a source that does not show each call.
func (o *Output) Summed(stdout, stderr io.Writer, r *futex.Report) error {
	if err := o.Write(render.Output(stdout), r); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if o.Profile.Name != "" && !o.Quiet {
		writeNotes(stderr, r, false)
	}
	return nil
}
