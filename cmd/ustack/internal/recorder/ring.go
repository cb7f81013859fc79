package recorder

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/tracefs"
)

// RingOptions are what a flight recorder needs besides.
type RingOptions struct {
	Keep     time.Duration // events of this time are kept, 0 for no limit
	KeepSize int64         // of these bytes, compressed, 0 for no limit
	After    time.Duration // from a trigger to its report
	CoolDown time.Duration // between two reports
	MaxFiles int
	Triggers []record.Trigger
}

// LooksAtEvents reports whether a trigger is looked for in each event.
func (opt *RingOptions) LooksAtEvents() bool {
	return slices.ContainsFunc(opt.Triggers, func(t record.Trigger) bool { return t.Wait > 0 || t.Event != "" })
}

// Ring is a sink that keeps the last events in memory, until something happens.
type Ring struct {
	opt  Options
	ropt RingOptions
	wake func(text string) error
	ring *record.Ring
	text *record.Compact
	// detector looks for triggers, nil if none is in the trace.
	detector *record.Detector
	asked    chan os.Signal
	quit     chan struct{}
	head     []record.Field

	why     string    // a report is to be written, and why
	due     time.Time // when
	written time.Time // the last one
	reports int
}

// NewRing returns a sink.
func NewRing(opt Options, ropt RingOptions) *Ring {
	o := &Ring{opt: opt, ropt: ropt, asked: make(chan os.Signal, 1), quit: make(chan struct{})}
	if ropt.LooksAtEvents() {
		o.detector = record.NewDetector(ropt.Triggers)
	}
	return o
}

// Open implements live.Sink.
func (o *Ring) Open(start *live.Start) (needs live.Needs, err error) {
	o.wake = start.Wake
	if o.ring, err = record.NewRing(record.RingOptions{Bytes: o.ropt.KeepSize, Time: o.ropt.Keep}); err != nil {
		return needs, err
	}
	// A report must be possible when it is needed.
	probe, err := record.Create(o.name(), o.opt.MaxSize)
	if err != nil {
		return needs, err
	}
	if err := probe.Discard(); err != nil {
		return needs, err
	}
	o.text = record.NewCompact(ringWriter{o.ring})
	o.text.Unannounced = true
	o.text.Redact = o.opt.Redactor
	o.text.Identifiers = record.IdentifiersFor(o.opt.Redactor)
	o.head = o.opt.fields(start)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go o.listen(signals)
	return needs, nil
}

// asking is written into the trace when a user asks for a report, writing when one
// is due: it wakes us, and marks the place.
const asking, writing = "ustack: a report was asked for", "ustack: a report is due"

// listen waits for the signal.
func (o *Ring) listen(signals chan os.Signal) {
	defer signal.Stop(signals)
	for {
		select {
		case sig := <-signals:
			select {
			case o.asked <- sig:
			default: // asked already
			}
			_ = o.wake(asking) // if it fails the next event wakes us
		case <-o.quit:
			return
		}
	}
}

// ringWriter is the ring as a writer.
type ringWriter struct{ ring *record.Ring }

func (w ringWriter) Write(p []byte) (int, error) {
	w.ring.Write(p, time.Now())
	return len(p), nil
}

// name returns the name of the next report.
func (o *Ring) name() string {
	if o.reports == 0 {
		return o.opt.Name
	}
	return o.opt.Name + "." + strconv.Itoa(o.reports)
}

// Renderer implements live.Sink.
func (o *Ring) Renderer(*resolve.Resolver) render.Renderer { return o }

// Batch implements render.Renderer.
func (o *Ring) Batch(h *resolve.Pending) error {
	if o.detector != nil {
		if why, fired := o.detector.Batch(h); fired {
			o.trigger(why)
		}
	}
	o.ring.Count(h.Events, firstTime(h))
	return o.text.Batch(h)
}

// firstTime returns the time of the first record of a batch that has one, 0 if none has.
func firstTime(h *resolve.Pending) tracefs.Time {
	for i := range h.Batch.Records {
		if r := &h.Batch.Records[i]; h.Batch.Timed(r) {
			return h.Batch.Time(r)
		}
	}
	return 0
}

// Flush implements render.Renderer.
func (o *Ring) Flush() error { return o.text.Flush() }

// Close implements render.Renderer. The events that are kept at the end are a
// report, too.
func (o *Ring) Close(t *resolve.Totals) error {
	if o.reports >= o.ropt.MaxFiles || len(o.ropt.Triggers) > 0 && o.why == "" {
		return nil
	}
	if o.why == "" {
		o.why = "end"
	}
	return o.write(t)
}

// trigger has a report written after a while, unless there was one just now.
func (o *Ring) trigger(why string) {
	if o.why != "" || o.reports >= o.ropt.MaxFiles || o.reports > 0 && time.Since(o.written) < o.ropt.CoolDown {
		return
	}
	o.why, o.due = why, time.Now().Add(o.ropt.After)
	time.AfterFunc(o.ropt.After, func() { _ = o.wake(writing) })
	o.opt.Reporter.Say("%s: a report follows in %v", why, o.ropt.After)
}

// Step implements live.Sink. It is done after the last report.
func (o *Ring) Step(t *resolve.Totals) (done bool, err error) {
	select {
	case <-o.asked:
		o.trigger("signal")
	default:
	}
	if o.why == "" || time.Now().Before(o.due) {
		return false, nil
	}
	if err := o.write(t); err != nil {
		return false, err
	}
	if o.reports < o.ropt.MaxFiles {
		return false, nil
	}
	o.opt.Reporter.Say("that was the last report of %d", o.ropt.MaxFiles)
	return true, nil
}

// write writes the kept events.
func (o *Ring) write(t *resolve.Totals) error {
	name := o.name()
	file, err := record.Create(name, o.opt.MaxSize)
	if err != nil {
		return err
	}
	fields := append(o.head[:len(o.head):len(o.head)], record.Field{Key: "trigger", Value: o.why})
	left, err := o.fill(file, fields)
	if err == nil {
		err = file.Finish(o.text.End(t, left))
	} else {
		err = errors.Join(err, file.Abandon())
	}
	if err != nil {
		return err
	}
	o.opt.Reporter.Say("wrote %s (%s)", name, o.why)
	o.why, o.written = "", time.Now()
	o.reports++
	return nil
}

// fill writes head, files and events. If not all of them fit, the newest stay:
// they are what the report is about.
func (o *Ring) fill(file *record.File, fields []record.Field) (left record.Left, err error) {
	report, err := record.NewReport(file, record.ReportOptions{Fields: fields, Redact: o.opt.Redactor, Identifiers: o.text.Identifiers})
	if err != nil {
		return left, err
	}
	now := time.Now()
	if err := report.KnownBy(headAt(o.ring.Oldest(file.Room(), now)), o.text); err != nil {
		return left, err
	}
	dropped, err := o.ring.WriteTo(file, now)
	if err != nil {
		return left, fmt.Errorf("writing %s: %w", file.Name(), err)
	}
	left.Events = dropped
	return left, nil
}

// End implements live.Sink.
func (o *Ring) End() error {
	close(o.quit)
	return nil
}
