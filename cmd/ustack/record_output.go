package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/render/record"
)

// recordOutput is the output of record.
type recordOutput struct {
	s      *session
	f      *recordFlags
	file   *record.File // nil when it is closed
	report *record.Report
	known  time.Time // when the files were announced last
}

func (o *recordOutput) open() error {
	var err error
	if o.file, err = record.Create(o.f.out, o.f.maxSize); err != nil {
		return err
	}
	if o.report, err = record.NewReport(o.file, record.ReportOptions{Drop: o.f.drop, Fields: o.s.fields(o.f), Redact: o.f.redactor}); err != nil {
		return errors.Join(err, o.file.Abandon())
	}
	return o.announce()
}

// announceEvery is how often files that were mapped since are announced.
const announceEvery = time.Second

// announce announces the files that are mapped as code now.
func (o *recordOutput) announce() error {
	o.known = time.Now()
	return o.report.Known(ownHead(), o.s.follow.known())
}

// ownHead is the head of a record of our own, in the layout of the trace.
func ownHead() []byte {
	const perSecond, perMicro = 1e9, 1000
	now := space.Monotonic()
	return fmt.Appendf(nil, "%16s-%-7d [000] ..... %5d.%06d: ", "ustack", os.Getpid(), now/perSecond, now%perSecond/perMicro)
}

func (o *recordOutput) renderer(*resolve.Resolver) render.Renderer { return o }

// Batch implements render.Renderer.
func (o *recordOutput) Batch(h *resolve.Held) error { return o.report.Batch(h) }

// Flush implements render.Renderer.
func (o *recordOutput) Flush() error { return o.report.Flush() }

// Close implements render.Renderer: the report is whole.
func (o *recordOutput) Close(t *resolve.Totals) error {
	o.file = nil
	return o.report.Close(t)
}

func (o *recordOutput) step(*resolve.Totals) error {
	if time.Since(o.known) < announceEvery {
		return nil
	}
	if o.report.Full() && o.f.drop == record.DropNewest {
		o.s.stop.finish() // nothing more goes in
	}
	return o.announce()
}

// close leaves the report as it is, if it was not finished.
func (o *recordOutput) close() error {
	if left := o.report.Left(); left.Events+left.Stacks > 0 {
		o.s.say("left out %d events and %d stacks: the report has its largest size", left.Events, left.Stacks)
	}
	if o.file == nil {
		return nil
	}
	err := o.file.Abandon()
	o.file = nil
	return err
}

// fields are the contents of a report's head.
func (s *session) fields(f *recordFlags) []record.Field {
	mono, wall := space.Monotonic(), time.Now()
	redacted := ""
	if f.redactor != nil {
		redacted = "1"
	}
	var events []string
	for _, e := range s.events {
		events = append(events, e.String())
	}
	return record.FieldsOf(
		"ustack", buildVersion(), "kernel", release(), "arch", runtime.GOARCH, "boot_id", procmap.BootID(f.proc),
		"clock", clock, "clock_offset_ns", strconv.FormatInt(wall.UnixNano()-int64(mono), 10),
		"begun", wall.UTC().Format(time.RFC3339Nano), "stacks", s.stacks.String(), "mappings", s.follow.how,
		"events", strings.Join(events, " "), "command", strings.Join(f.command, " "), "redacted", redacted)
}
