package analysis

import (
	"errors"
	"fmt"
	"io"
	"time"

	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/display"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/profile"
)

// LiveOptions are what all sinks of reports are asked for.
type LiveOptions struct {
	Interval time.Duration // how often the report so far is written, 0 for never
	Symbols  symbols.Options
	Stdout   io.Writer
	To       destination.Flags // of the report
	Text     bool              // it is text
	Reporter *live.Reporter
}

// Live is the part of a live.Sink that does not depend on the analysis: A is set by the
// sink that has it, after Begin.
type Live struct {
	LiveOptions
	Start *live.Start
	A     Analysis           // nil before Open and after End
	Names *symbolize.Symbols // nil without --symbols
	// Entries shows which calls are of 32 bits, from Begin until Finish.
	Entries *symbolize.Entries

	out     io.WriteCloser // where the report goes
	interim *display.Interim
}

// Begin is the first part of Open. to is the profile that is written, if any.
func (o *Live) Begin(start *live.Start, to profile.Format) (err error) {
	o.Start = start
	if o.out, err = o.To.Open(o.Stdout, o.Text); err != nil {
		return err
	}
	if err := output.CheckProfile(o.out, to); err != nil {
		return err
	}
	if o.To.ToFile() {
		o.Stdout = o.out
	}
	if o.Names, err = o.Symbols.OpenLive(start.Since); err != nil {
		return err
	}
	if o.Entries, err = symbolize.NewEntries(symbolize.Options{Since: start.Since}); err != nil {
		return err
	}
	o.interim = display.New(o.Stdout, o.Interval)
	return nil
}

// IdleTick is how often Step is called at least.
const IdleTick = time.Second / 2

// Needs returns what every such sink needs. brief is set if its text fits onto a screen.
func (o *Live) Needs(brief bool) live.Needs {
	screen := o.interim.OnScreen()
	return live.Needs{Symbols: o.Names, Tick: IdleTick, OwnProgress: screen, Screen: screen && brief && o.Text}
}

// Renderer implements live.Sink.
func (o *Live) Renderer(*resolve.Resolver) render.Renderer { return o.A }

// Idle notes how far the trace is whole while nothing happens in it.
func (o *Live) Idle() {
	if o.Start.Processes != nil && o.Start.Idle() {
		o.A.Until(space.Monotonic())
	}
}

// Show shows the report so far if it is time to. write writes it.
func (o *Live) Show(t *resolve.Totals, write func(io.Writer) error) error {
	if !o.A.Seen() {
		return nil
	}
	return o.interim.Step(t, func(w io.Writer) error {
		o.A.Refused(o.Start.Refused())
		return write(w)
	})
}

// Finish is live.Sink's End: report writes the report, of an interrupted trace too.
func (o *Live) Finish(report func(io.Writer) error) (err error) {
	if o.A == nil {
		return nil
	}
	if o.Start.Processes != nil {
		o.A.Until(o.Start.Stopped())
	}
	if o.A.Seen() {
		o.A.Refused(o.Start.Refused())
		err = errors.Join(o.interim.Clear(), report(o.out))
	}
	if cerr := o.out.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("writing the output: %w", cerr))
	}
	o.Entries.Close()
	if o.A = nil; o.Names != nil {
		o.Names.Close()
	}
	return err
}
