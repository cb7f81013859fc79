package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
)

// ringOutput is the output of record --ring: the last events, in memory, until
// something happens.
type ringOutput struct {
	s    *session
	f    *recordFlags
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

func newRingOutput(s *session, f *recordFlags) *ringOutput {
	o := &ringOutput{s: s, f: f, asked: make(chan os.Signal, 1), quit: make(chan struct{})}
	for _, t := range f.triggers {
		if t.Wait > 0 || t.Event != "" {
			o.detector = record.NewDetector(f.triggers)
			s.records = true
		}
	}
	return o
}

func (o *ringOutput) open() error {
	var err error
	if o.ring, err = record.NewRing(record.RingOptions{Bytes: o.f.keepSize, Time: o.f.keep}); err != nil {
		return err
	}
	// A report must be possible when it is needed.
	probe, err := record.Create(o.name(), o.f.maxSize)
	if err != nil {
		return err
	}
	if err := probe.Discard(); err != nil {
		return err
	}
	o.text = record.NewCompact(ringWriter{o.ring})
	o.text.Unannounced = true
	o.text.Redact = o.f.redactor
	o.text.Identifiers = record.IdentifiersFor(o.f.redactor)
	o.head = o.s.fields(o.f)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go o.listen(signals)
	return nil
}

// asking is written into the trace when a user asks for a report, writing when one
// is due: it wakes us, and marks the place.
const asking, writing = "ustack: a report was asked for", "ustack: a report is due"

// listen waits for the signal.
func (o *ringOutput) listen(signals chan os.Signal) {
	defer signal.Stop(signals)
	for {
		select {
		case sig := <-signals:
			select {
			case o.asked <- sig:
			default: // asked already
			}
			_ = o.s.in.Mark(asking) // if it fails the next event wakes us
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

// name is that of the next report.
func (o *ringOutput) name() string {
	if o.reports == 0 {
		return o.f.out
	}
	return o.f.out + "." + strconv.Itoa(o.reports)
}

func (o *ringOutput) renderer(*resolve.Resolver) render.Renderer { return o }

// Batch implements render.Renderer.
func (o *ringOutput) Batch(h *resolve.Held) error {
	if o.detector != nil {
		if why, fired := o.detector.Batch(h); fired {
			o.trigger(why)
		}
	}
	o.ring.Count(h.Events)
	return o.text.Batch(h)
}

// Flush implements render.Renderer.
func (o *ringOutput) Flush() error { return o.text.Flush() }

// Close implements render.Renderer. What is kept at the end is a report, too.
func (o *ringOutput) Close(t *resolve.Totals) error {
	if o.reports >= o.f.maxFiles || len(o.f.triggers) > 0 && o.why == "" {
		return nil
	}
	if o.why == "" {
		o.why = "end"
	}
	return o.write(t)
}

// trigger has a report written after a while, unless there was one just now.
func (o *ringOutput) trigger(why string) {
	if o.why != "" || o.reports >= o.f.maxFiles || o.reports > 0 && time.Since(o.written) < o.f.coolDown {
		return
	}
	o.why, o.due = why, time.Now().Add(o.f.after)
	time.AfterFunc(o.f.after, func() { _ = o.s.in.Mark(writing) })
	o.s.say("%s: a report follows in %v", why, o.f.after)
}

func (o *ringOutput) step(t *resolve.Totals) error {
	select {
	case <-o.asked:
		o.trigger("signal")
	default:
	}
	if o.why == "" || time.Now().Before(o.due) {
		return nil
	}
	if err := o.write(t); err != nil {
		return err
	}
	if o.reports >= o.f.maxFiles {
		o.s.say("that was the last report of %d", o.f.maxFiles)
		o.s.stop.finish()
	}
	return nil
}

// write writes what is kept.
func (o *ringOutput) write(t *resolve.Totals) error {
	name := o.name()
	file, err := record.Create(name, o.f.maxSize)
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
	o.s.say("wrote %s (%s)", name, o.why)
	o.why, o.written = "", time.Now()
	o.reports++
	return nil
}

// fill writes head, files and events. If not all of them fit, the newest stay:
// they are what the report is about.
func (o *ringOutput) fill(file *record.File, fields []record.Field) (left record.Left, err error) {
	report, err := record.NewReport(file, record.ReportOptions{Fields: fields, Redact: o.f.redactor, Identifiers: o.text.Identifiers})
	if err != nil {
		return left, err
	}
	if err := report.KnownBy(ownHead(), o.text); err != nil {
		return left, err
	}
	dropped, err := o.ring.WriteTo(file, time.Now())
	if err != nil {
		return left, fmt.Errorf("writing %s: %w", file.Name(), err)
	}
	left.Events = dropped
	return left, nil
}

func (o *ringOutput) close() error {
	close(o.quit)
	return nil
}
