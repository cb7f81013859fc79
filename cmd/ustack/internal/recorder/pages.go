package recorder

import (
	"bytes"
	"errors"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/tracefs"
	"ustack/tracefs/pagefile"
)

// Pages is a sink for a report of pages. The engine fills the capture; the sink gets its
// losses only.
type Pages struct {
	opt     Options
	capture *pagefile.Capture
	file    *record.Pages // nil when it is closed
	left    pagefile.Counts
}

// NewPages returns a sink of a capture, which the engine must have, too (live.Options).
func NewPages(opt Options, capture *pagefile.Capture) *Pages {
	return &Pages{opt: opt, capture: capture}
}

// Open implements live.Sink.
func (o *Pages) Open(start *live.Start) (needs live.Needs, err error) {
	needs.OwnTotals = true
	size, err := o.opt.Budget.Room(o.opt.MaxSize)
	if err != nil {
		return needs, err
	}
	fields := append(append(o.opt.fields(start), o.opt.Budget.fields()...), o.opt.Chance.fields()...)
	o.file, err = record.CreatePages(o.opt.Name, size, o.capture, o.opt.Budget.account(), fields)
	return needs, err
}

// Renderer implements live.Sink.
func (o *Pages) Renderer(*resolve.Resolver) render.Renderer { return o }

// Batch implements render.Renderer: notes are kept.
func (o *Pages) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		if rec := &h.Records[i]; rec.Kind == tracefs.KindNote {
			o.capture.Note(string(bytes.Trim(h.Raw(rec), "#\n ")))
		}
	}
	return nil
}

// Flush implements render.Renderer: the engine flushes the capture.
func (o *Pages) Flush() error { return nil }

// Close implements render.Renderer: the report is whole.
func (o *Pages) Close(t *resolve.Totals) error {
	err := errors.Join(o.file.Finish(t), o.opt.Budget.end())
	o.file, o.left = nil, o.capture.Left()
	return err
}

// Wanted implements live.Counter.
func (o *Pages) Wanted() int64 { return o.capture.Counts().Events }

// Step implements live.Sink. It is done when nothing more goes in.
func (o *Pages) Step(*resolve.Totals) (done bool, err error) { return o.capture.Full(), nil }

// End implements live.Sink. It leaves the report as it is, if it was not finished.
func (o *Pages) End() error {
	n := o.capture.Counts()
	o.opt.Reporter.Say("%d events, %d stacks as pages of the ring buffer (ustack replay makes text of them)", n.Events, n.Stacks)
	if o.left.Events+o.left.Stacks > 0 {
		o.opt.Reporter.Say("left out %d events and %d stacks: the report has its largest size", o.left.Events, o.left.Stacks)
	}
	if o.file == nil {
		return nil
	}
	err := o.file.Abandon()
	o.file = nil
	return err
}
