// Package display shows what a report is so far, while a trace goes on: on a terminal
// each in the place of the one before, elsewhere one after the other.
package display

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"ustack/filemap/resolve"
	"ustack/render"
)

// Interim shows reports so far.
type Interim struct {
	stdout   io.Writer
	interval time.Duration
	screen   *render.Screen // nil if there is none
	shown    time.Time
}

// New returns an Interim that shows a report each interval, none if that is 0.
func New(stdout io.Writer, interval time.Duration) *Interim {
	d := &Interim{stdout: stdout, interval: interval, shown: time.Now()}
	if interval > 0 {
		d.screen = render.NewScreen(stdout)
	}
	return d
}

// OnScreen reports whether there is a terminal for the reports.
func (d *Interim) OnScreen() bool { return d.screen != nil }

// Step shows a report if it is time to. report writes it.
func (d *Interim) Step(t *resolve.Totals, report func(io.Writer) error) error {
	if d.interval == 0 || time.Since(d.shown) < d.interval {
		return nil
	}
	err := d.show(t, report)
	d.shown = time.Now() // a slow terminal gets less
	return err
}

func (d *Interim) show(t *resolve.Totals, report func(io.Writer) error) error {
	var text bytes.Buffer
	if d.screen != nil {
		lost, _ := t.LostRecords()
		fmt.Fprintf(&text, "%d events, %d lost; Ctrl-C for the whole answer\n\n", t.Events, lost)
	}
	if err := report(&text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if d.screen != nil {
		return d.screen.Show(text.Bytes())
	}
	text.WriteByte('\n')
	if _, err := d.stdout.Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// Clear clears the terminal of the last report.
func (d *Interim) Clear() error { return d.screen.Clear() }
