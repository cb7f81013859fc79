package recorder

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ustack/cmd/ustack/internal/budget"
	"ustack/filemap/resolve"
	"ustack/render/cause"
	"ustack/render/record"
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
	return slices.ContainsFunc(opt.Triggers, func(t record.Trigger) bool { return !t.Signal })
}

// deadlock reports whether a deadlock is a trigger.
func (opt *RingOptions) deadlock() bool {
	return slices.ContainsFunc(opt.Triggers, func(t record.Trigger) bool { return t.Deadlock })
}

// flight keeps text in memory, and writes reports of it.
type flight struct {
	opt  Options
	ropt RingOptions
	ring *record.Ring
	text *record.Compact
	head []record.Field
	now  func() time.Time

	why     string       // a report is to be written, and why
	cause   *cause.Cause // of the wait that is why, nil if it is unknown
	due     time.Time    // when
	written time.Time    // the last one, or when one was left out
	refused bool         // since the last one
	reports int
	number  int // that the next one has at least
}

// open begins an empty ring. A report must be possible when it is needed: that is tried.
func (o *flight) open() (err error) {
	if o.ring, err = record.NewRing(record.RingOptions{Bytes: o.ropt.KeepSize, Time: o.ropt.Keep}); err != nil {
		return err
	}
	probe, err := o.next(o.opt.Name, o.opt.MaxSize)
	if err != nil {
		return err
	}
	if err := probe.Discard(); err != nil {
		return err
	}
	w := &ringWriter{ring: o.ring, now: o.now}
	o.text = record.NewCompact(w)
	w.text = o.text
	o.text.Unannounced = true
	o.text.Redact = o.opt.Redactor
	o.text.Identifiers = record.IdentifiersFor(o.opt.Redactor)
	return nil
}

// ringWriter is the ring as a writer.
type ringWriter struct {
	ring *record.Ring
	text *record.Compact // that writes
	now  func() time.Time
}

func (w *ringWriter) Write(p []byte) (int, error) {
	w.ring.Write(p, w.text.Pending(), w.now())
	return len(p), nil
}

// next begins the next report. It leaves those of earlier recorders, which may not have been
// fetched.
func (o *flight) next(name string, max int64) (file *record.File, err error) {
	file, o.number, err = record.CreateNext(name, o.number, max)
	return file, err
}

// trigger has a report written after a while, unless there was one just now, or this day has one
// with the same cause; nil is an unknown one.
func (o *flight) trigger(why string, c *cause.Cause) (begun bool) {
	if !o.ready() {
		return false
	}
	// Duplicates do not cool down for other causes, and take nothing of their chance. Should the
	// disk fail, the report fails, too.
	if is, err := o.opt.Budget.repeats(c, o.now(), o.ropt.CoolDown); is && err == nil {
		return false
	}
	if why != askedFor && len(o.ropt.Triggers) > 0 && !o.opt.Chance.Happens() {
		o.written = o.now() // it cools down as after a report, so that each one has this chance
		return false
	}
	if _, err := o.opt.Budget.Room(0); err != nil {
		o.refuse(err)
		return false
	}
	o.why, o.cause, o.due = why, c, o.now().Add(o.ropt.After)
	o.opt.Reporter.Say("%s: a report follows in %v", why, o.ropt.After)
	return true
}

// ready reports whether a report can begin: none is due, and none was just now.
func (o *flight) ready() bool {
	return o.why == "" && o.reports < o.ropt.MaxFiles && !o.cools()
}

// cools reports whether the last report, or one that was refused, was just now. Each refusal is
// written to the disk.
func (o *flight) cools() bool {
	while := o.ropt.CoolDown
	if o.refused {
		while = max(while, leastWhile)
	}
	return !o.written.IsZero() && o.now().Sub(o.written) < while
}

// askedFor is the trigger of a report that a user wants, which is always written. In a ring
// without triggers all reports of a run have the run's chance.
const askedFor = "signal"

// refuse leaves a report out for which there is no budget, and cools down as after one.
func (o *flight) refuse(err error) {
	if !o.refused {
		o.opt.Reporter.Say("%v: reports until then are counted", err)
	}
	o.why, o.cause, o.written, o.refused = "", nil, o.now(), true
}

// isDue reports whether a report is to be written now.
func (o *flight) isDue() bool { return o.why != "" && !o.now().Before(o.due) }

// last reports whether all reports have been written, and says so.
func (o *flight) last() bool {
	if o.reports < o.ropt.MaxFiles {
		return false
	}
	o.opt.Reporter.Say("that was the last report of %d", o.ropt.MaxFiles)
	return true
}

// atEnd reports whether what is kept at the end is a report, too.
func (o *flight) atEnd() bool {
	if o.reports >= o.ropt.MaxFiles || len(o.ropt.Triggers) > 0 && o.why == "" {
		return false
	}
	if o.why == "" {
		o.why = "end"
	}
	return true
}

// write writes the kept events.
func (o *flight) write(t *resolve.Totals) error {
	fields := append(o.head[:len(o.head):len(o.head)], record.Field{Key: "trigger", Value: o.why})
	fields = append(fields, o.opt.Budget.fields()...)
	if o.why != askedFor || len(o.ropt.Triggers) == 0 {
		fields = append(fields, o.opt.Chance.fields()...)
	}
	o.opt.Budget.about(o.cause)
	file, err := o.opt.create(o.next)
	if errors.Is(err, budget.ErrSpent) {
		o.refuse(err)
		return nil
	}
	if err != nil {
		return err
	}
	had, left, err := o.fill(file, fields)
	if err == nil {
		of := *t // the recording; a report says how many events it has itself
		of.Events, of.Stacks = had.Events, had.Stacks
		err = file.Finish(o.text.End(&of, left))
	} else {
		err = errors.Join(err, file.Abandon())
	}
	if err = errors.Join(err, o.opt.Budget.end()); err != nil {
		return err
	}
	o.opt.Reporter.Say("wrote %s (%s)", file.Name(), o.why)
	o.why, o.cause, o.written, o.refused = "", nil, o.now(), false
	o.reports++
	o.number++ // this one may be fetched, and its name is not to come again
	return nil
}

// fill writes head, files and events. If not all of them fit, the newest stay:
// they are what the report is about.
func (o *flight) fill(file *record.File, fields []record.Field) (had, left record.Left, err error) {
	report, err := record.NewReport(file, record.ReportOptions{Fields: fields, Redact: o.opt.Redactor, Identifiers: o.text.Identifiers})
	if err != nil {
		return had, left, err
	}
	now := o.now()
	if err := report.KnownBy(headAt(o.ring.Oldest(file.Room(), now)), o.text); err != nil {
		return had, left, err
	}
	if had, left, err = o.ring.WriteTo(file, now); err != nil {
		return had, left, fmt.Errorf("writing %s: %w", file.Name(), err)
	}
	return had, left, nil
}
