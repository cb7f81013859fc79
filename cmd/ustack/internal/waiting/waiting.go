// Package waiting analyses what threads wait for, in a saved trace or while the trace is
// made, and writes the report.
package waiting

import (
	"errors"
	"fmt"
	"io"
	"time"

	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/profile"
	"ustack/render/wait"
	waitreport "ustack/render/wait/report"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// Limits for holding records back: stacks that are deferred come with the return.
const (
	holdBytes = 1 << 20
	holdTime  = 2 * time.Second
)

// Output is what the report shows, and how it is written: as text, without more.
type Output struct {
	JSON    bool
	Profile profile.Format // if it has a name, for other programs
	View    wait.View
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

// Read analyses a saved trace: it reads it, and once more if records are lost in places
// that could not be foreseen.
func (o *Output) Read(from *saved.Options, stdin io.Reader, stderr io.Writer) (*wait.Analysis, error) {
	hold := resolve.Limits{Lines: pump.HoldLines, Bytes: holdBytes, Time: tracefs.Time(holdTime)}
	from.Own = true
	trace, err := from.Open(stdin, input.Options{Events: true, NoText: true}, resolve.Options{Hold: hold, Stitch: true})
	if err != nil {
		return nil, err
	}
	defer trace.Close()
	a := wait.New(wait.Options{})
	_, err = trace.Read(func(*resolve.Resolver) render.Renderer { return a }, stderr)
	if err != nil || !a.NeedsGaps() {
		return a, err
	}
	second := wait.New(wait.Options{Gaps: a.Gaps()})
	if ok, err := trace.ReadAgain(second, stderr); !ok || err != nil {
		return a, err
	}
	return second, nil
}

// Report writes the report at the end. names may be nil.
func (o *Output) Report(stdout io.Writer, a *wait.Analysis, names *symbolize.Symbols) error {
	if names != nil {
		a.Name(names)
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
	}
	return waitreport.Text(w, r)
}

// Run reads a saved trace and writes the report. What was read before an error is
// reported.
func (o *Output) Run(from *saved.Options, opt *symbols.Options, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := output.CheckProfile(stdout, o.Profile); err != nil {
		return err
	}
	a, err := o.Read(from, stdin, stderr)
	if a == nil || err != nil && !a.Seen() {
		return err
	}
	names, nerr := opt.Open(from.Sysroot, stderr)
	if nerr != nil {
		return errors.Join(err, nerr)
	}
	if names != nil {
		defer names.Close()
	}
	return errors.Join(err, o.Report(stdout, a, names))
}
