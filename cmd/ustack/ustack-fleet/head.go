package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"ustack/render/tally"
)

// What the head and the last line of a report say of all its rows.

// finish completes the rows: the report, its times as times of the day, and its counts.
func (c *collector) finish(report uint64, name string, now time.Time) {
	c.endStack()
	for _, key := range c.order {
		n := c.counted[key]
		row := sampleRow{Event: key.name, Weight: float64(n.n), Time: &n.first}
		row.at(c.stacks[key.stack])
		c.samples = append(c.samples, row)
	}
	d := &c.device
	d.Report, d.Name = report, strings.ToValidUTF8(name, "\ufffd")
	d.OS, d.Kernel, d.Arch, d.Ustack = c.head["os"], c.head["kernel"], c.head["arch"], c.head["ustack"]
	if d.Device = c.head["boot_id"]; d.Device == "" {
		d.Device = fmt.Sprintf("report-%016x", report)
	}
	d.Recording = recordingOf(c.head, report)
	d.Refused, d.Duplicates = c.notWritten("refused"), c.notWritten("duplicates")
	weight, _ := c.weight() // whole has returned the error
	begun := c.endNS - d.Duration
	d.Begun = c.utc(&begun, now)
	for i := range c.samples {
		row := &c.samples[i]
		row.Report, row.Device = report, d.Device
		row.Weight *= weight
		row.Time = c.utc(row.Time, now)
	}
	onePath(c.samples)
}

// onePath gives the waits for a lock at a site one path of its file: the least that the report has.
// So a report counts for one path, whatever it gives single waits.
func onePath(samples []sampleRow) {
	paths := make(map[uint64]*string)
	for i := range samples {
		if row := &samples[i]; row.LockKey != nil && row.LockName == nil {
			path := paths[*row.LockKey]
			least(&path, row.SitePath)
			paths[*row.LockKey] = path
		}
	}
	for i := range samples {
		if row := &samples[i]; row.LockKey != nil && row.LockName == nil {
			row.SitePath = paths[*row.LockKey]
		}
	}
}

// recordingOf returns the key of the recording that a report is of. It is no hash that is safe from
// devices: one that wants the recording of another can say its boot_id and begun.
func recordingOf(head map[string]string, report uint64) uint64 {
	boot, begun := head["boot_id"], head["begun"]
	if boot == "" || begun == "" {
		return report
	}
	return xxhash.Sum64(appendText(appendText(nil, &boot), &begun))
}

// weight returns for how many reports this one stands: it was written with a probability.
func (c *collector) weight() (float64, error) {
	word, ok := c.head["weight"]
	if !ok {
		return 1, nil
	}
	w, err := strconv.ParseFloat(word, 64)
	if err != nil || !(w >= 1 && w <= tally.MaxWeight) {
		return 1, fmt.Errorf("its weight, %.20q, is not a number from 1 to %g", word, float64(tally.MaxWeight))
	}
	return w, nil
}

// notWritten returns how many reports the device did not write, for a reason. It cannot have been
// asked for more in the time of a recorder.
func (c *collector) notWritten(reason string) int64 {
	const most = 1 << 32
	n, err := strconv.ParseInt(c.head[reason], 10, 64)
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// Reasons for which a report is not whole.
var (
	errCut     = fmt.Errorf("its last line is missing: it was cut (%w)", io.ErrUnexpectedEOF)
	errChanged = errors.New("it was changed")
)

// whole returns an error if the report does not have the events that it says it has, or a weight
// that it cannot have: it was changed. A trace that is no report says nothing.
func (c *collector) whole() error {
	var events, left int64
	said := false
	for word := range strings.FieldsSeq(c.head["end"]) {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case key == "events" && err == nil:
			events, said = n, true
		case key == "left_out_events" && err == nil:
			left = n
		}
	}
	if !said && c.head["version"] != "" {
		return errCut
	}
	if said && events-left != c.device.Events {
		return fmt.Errorf("its last line says that it has %d events, and it has %d: %w", events-left, c.device.Events, errChanged)
	}
	_, err := c.weight()
	return err
}

// utc returns a time of the trace as nanoseconds of UTC, nil if that is unknown: the report
// does not say what its clock is, or it would be before ustack existed, or after today.
func (c *collector) utc(at *int64, now time.Time) *int64 {
	offset, err := strconv.ParseInt(c.head["clock_offset_ns"], 10, 64)
	if err != nil || at == nil {
		return nil
	}
	first := time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)
	t := time.Unix(0, offset).Add(time.Duration(*at))
	if t.Before(first) || t.After(now.Add(24*time.Hour)) {
		return nil
	}
	ns := t.UnixNano()
	return &ns
}
