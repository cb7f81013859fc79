package tables

import (
	"bytes"

	"ustack/filemap/resolve"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// eventRow is an event of the trace.
type eventRow struct {
	line       int64
	time       tracefs.Time
	cpu, tid   int32
	comm, name string
	stack      int64
	missing    string
}

func eventsTable() *table[eventRow] {
	type row = eventRow
	return define("events", "All events of the trace.",
		column[row]{"line", Integer, "its line in the trace", func(r *row) any { return r.line }},
		column[row]{"ns", Integer, "its time stamp", func(r *row) any { return int64(r.time) }},
		column[row]{"cpu", Integer, "the CPU", func(r *row) any { return positive(r.cpu) }},
		column[row]{"tid", Integer, "the thread", func(r *row) any { return positive(r.tid) }},
		column[row]{"comm", Text, "its name", func(r *row) any { return word(r.comm) }},
		column[row]{"name", Text, "what it is: sched_switch, sys_enter_futex, ...", func(r *row) any { return word(r.name) }},
		column[row]{"stack", Integer, "where: stacks.id", func(r *row) any { return some(r.stack) }},
		column[row]{"no_stack", Text, "why there is no stack, if it asked for one", func(r *row) any { return word(r.missing) }},
	).by("tid")
}

// maxStacks bounds the stacks that are kept apart.
const maxStacks = 1 << 14

// tooMany is why an event has no stack that had one.
const tooMany = "more different stacks than ustack keeps apart"

// events sends the events of a trace. It keeps the stacks until they have names.
type events struct {
	to     Sink
	table  *table[eventRow]
	lines  tracefs.LineCounter
	stacks stackset.Set
	head   heads
	count  int64
}

func newEvents(to Sink) *events {
	e := &events{to: to, table: eventsTable(), head: heads{table: headTable()}}
	e.stacks.Init(maxStacks)
	return e
}

// batch sends the events of a batch, and the lines of a report's own.
func (e *events) batch(h *resolve.Pending) error {
	e.lines.Begin(h.Batch)
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind == tracefs.KindNote {
			if h.Escaped && text.IsPlace(h.Raw(rec)) {
				continue
			}
			if err := e.head.line(e.to, h.Plain(h.Raw(rec)), e.count == 0); err != nil {
				return err
			}
			continue
		}
		if rec.Kind != tracefs.KindEvent || rec.Flags&tracefs.Continued != 0 {
			continue
		}
		if err := e.event(h, i, rec); err != nil {
			return err
		}
	}
	return e.end(h)
}

// end sends the last line of a report, which is after the last record of a batch.
func (e *events) end(h *resolve.Pending) error {
	if len(h.Records) == 0 {
		return nil
	}
	last := h.Plain(h.Raw(&h.Records[len(h.Records)-1]))
	at := bytes.LastIndex(last, []byte("\n"+reportLine+endWord+" "))
	if at < 0 {
		return nil
	}
	return e.head.line(e.to, last[at+1:], false)
}

func (e *events) event(h *resolve.Pending, i int, rec *tracefs.Record) error {
	comm, _ := h.Who(rec)
	row := eventRow{line: e.lines.Of(i), time: h.Time(rec), cpu: rec.CPU, tid: rec.TID, comm: string(h.Plain(comm)), name: nameOf(h, rec)}
	a := stackset.Attached(h, i)
	switch n := e.stacks.Of(a); {
	case n == stackset.Other:
		row.missing = tooMany
	case n >= 0:
		row.stack = int64(n) + 1
	default:
		row.missing = a.Missing.String()
	}
	e.count++
	return e.table.put(e.to, &row)
}

// nameOf returns the name of an event, "" if it has none.
func nameOf(h *resolve.Pending, rec *tracefs.Record) string {
	name, _ := text.SplitEvent(h.Text[rec.Body:max(rec.Body, rec.End)])
	return name.Prefix + string(name.Name)
}
