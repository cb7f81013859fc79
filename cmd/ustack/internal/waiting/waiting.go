// Package waiting analyses what threads wait for, in a saved trace or while the trace is
// made, and writes the report.
package waiting

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
	"ustack/render/lost"
	"ustack/render/profile"
	"ustack/render/progress"
	"ustack/render/wait"
	waitreport "ustack/render/wait/report"
)

// Output is what the report shows, and how it is written: as text, without more.
type Output struct {
	JSON, Markdown bool
	Profile        profile.Format // if it has a name, for other programs
	View           wait.View
	Brief          bool // the text fits onto a screen
	// Must has Run return ErrNone instead of a report that says so.
	Must bool
}

// Check reports what cannot be had.
func (o *Output) Check() error {
	if o.Profile.Timed {
		return errors.New("--format=" + o.Profile.Name + " shows each wait at its time, which wait does not keep: use ustack futex, or --format=html")
	}
	if o.Profile.Name != "" && o.View.By != wait.ByStack {
		return errors.New("--by is for text and JSON: a profile is of stacks")
	}
	return o.View.Check()
}

// ErrNone: a trace has no switches of threads that wait.
var ErrNone = errors.New("no waits")

// read analyses a saved trace. The analysis needs the entries until its last report.
func (o *Output) read(from *saved.Options, entries *symbolize.Entries, stdin io.Reader, stderr io.Writer) (*wait.Analysis, error) {
	read := analysis.Saved[*wait.Analysis]{From: from, New: func(_ *saved.Trace, gaps *lost.Gaps) *wait.Analysis {
		return wait.New(wait.Options{Gaps: gaps, Entries: entries})
	}}
	return read.Read(stdin, stderr)
}

// Report writes the report at the end. names may be nil, and line, which has its steps.
func (o *Output) Report(stdout io.Writer, line *progress.Line, a *wait.Analysis, names *symbolize.Symbols) error {
	if names != nil {
		step := line.Begin("naming the functions", nil)
		a.Name(names)
		step.End()
	}
	if !render.IsTerminalWriter(render.Output(stdout)) {
		defer line.Begin("writing the report", nil).End()
	}
	if err := o.Write(render.Output(stdout), a); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// Write writes the report so far.
func (o *Output) Write(w io.Writer, a *wait.Analysis) error {
	r := a.Report(o.View)
	switch {
	case o.Profile.Write != nil:
		return o.Profile.Write(w, waitreport.Profile(r))
	case o.JSON:
		return waitreport.JSON(w, r)
	case o.Markdown:
		return waitreport.Markdown(w, r)
	}
	return waitreport.Text(w, r, waitreport.Options{Brief: o.Brief})
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
	a, err := o.read(from, entries, stdin, stderr)
	if a == nil || err != nil && !a.Seen() {
		return err
	}
	if o.Must && err == nil && a.Report(wait.View{Top: 1}).Switches == 0 {
		return ErrNone
	}
	names, nerr := opt.Open(from.Sysroot, from.Progress())
	if nerr != nil {
		return errors.Join(err, nerr)
	}
	if names != nil {
		defer names.Close()
	}
	return errors.Join(err, o.Report(stdout, from.Progress(), a, names))
}
