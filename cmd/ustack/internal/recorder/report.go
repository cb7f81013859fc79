package recorder

import (
	"errors"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
)

// Report is a sink that writes the trace into one report.
type Report struct {
	opt    Options
	drop   record.Drop
	start  *live.Start
	file   *record.File // nil when it is closed
	report *record.Report
	known  time.Time // when the files were announced last
}

// NewReport returns a sink. drop is what to leave out first when the report has its
// largest size.
func NewReport(opt Options, drop record.Drop) *Report { return &Report{opt: opt, drop: drop} }

// Open implements live.Sink.
func (o *Report) Open(start *live.Start) (needs live.Needs, err error) {
	o.start = start
	fields := append(append(o.opt.fields(start), o.opt.Budget.fields()...), o.opt.Chance.fields()...)
	if o.file, err = o.opt.create(record.Create); err != nil {
		return needs, err
	}
	ropt := record.ReportOptions{Drop: o.drop, Fields: fields, Redact: o.opt.Redactor}
	if places := newPlaces(&o.opt, start); places != nil {
		ropt.Before, needs.Processes = places.before, true
	}
	if o.report, err = record.NewReport(o.file, ropt); err != nil {
		return needs, errors.Join(err, o.file.Abandon())
	}
	needs.Code = true
	return needs, o.announce()
}

// announceEvery is how often files that were mapped since are announced.
const announceEvery = time.Second

// announce announces the files that are mapped as code now.
func (o *Report) announce() error {
	o.known = time.Now()
	return o.report.Known(ownHead(), o.start.Files())
}

// Renderer implements live.Sink.
func (o *Report) Renderer(*resolve.Resolver) render.Renderer { return o }

// Batch implements render.Renderer.
func (o *Report) Batch(h *resolve.Pending) error { return o.report.Batch(h) }

// Flush implements render.Renderer.
func (o *Report) Flush() error { return o.report.Flush() }

// Close implements render.Renderer: the report is whole.
func (o *Report) Close(t *resolve.Totals) error {
	o.file = nil
	return errors.Join(o.report.Close(t), o.opt.Budget.end())
}

// Step implements live.Sink. It is done when nothing more goes in.
func (o *Report) Step(*resolve.Totals) (done bool, err error) {
	if time.Since(o.known) < announceEvery {
		return false, nil
	}
	return o.report.Full() && o.drop == record.DropNewest, o.announce()
}

// End implements live.Sink. It leaves the report as it is, if it was not finished.
func (o *Report) End() error {
	if left := o.report.Left(); left.Events+left.Stacks > 0 {
		o.opt.Reporter.Say("left out %d events and %d stacks: the report has its largest size", left.Events, left.Stacks)
	}
	if o.file == nil {
		return nil
	}
	err := o.file.Abandon()
	o.file = nil
	return err
}
