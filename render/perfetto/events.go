package perfetto

import (
	"cmp"
	"io"
	"maps"
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/profile"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
	"ustack/tracefs/text"
)

// Events is a renderer that writes an instant for each event that has a stack, or
// should have one and does not, and for each stack whose event is not in the trace;
// and a slice for each time in which records were lost. The resolver must have
// stitched.
type Events struct {
	w      *Writer
	comms  filemap.Names
	cpus   map[cpuKey]*cpu
	late   tracefs.Time // the latest time seen
	frames []profile.Frame
	notes  []Note
}

type cpuKey struct {
	source uint8
	cpu    int32
}

// cpu is the state of a CPU.
type cpu struct {
	last tracefs.Time // of its last record
	seen bool
	gap  bool // records have been lost since
	lost uint64
}

// NewEvents returns an Events that writes to w.
func NewEvents(w io.Writer, opt Options) *Events {
	return &Events{w: NewWriter(w, opt), cpus: make(map[cpuKey]*cpu)}
}

// Batch implements render.Renderer.
func (e *Events) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec, a := &h.Records[i], &h.Attached[i]
		if rec.Kind == tracefs.KindLost || rec.Kind == tracefs.KindGap {
			e.lost(rec)
			continue
		}
		e.seen(h, rec)
		switch {
		case rec.Flags&tracefs.Continued != 0:
		case rec.Kind == tracefs.KindEvent && (a.Stack != nil || a.Missing.String() != ""):
			e.event(h, rec, eventNameOf(h.Text[rec.Body:rec.End]), a.Stack, a.Missing.String())
		case rec.Kind == tracefs.KindStack && !a.Taken:
			s := profile.StackOf(h, i)
			e.event(h, rec, "stack", &s, "")
		}
	}
	return e.w.Err()
}

// Flush implements render.Renderer.
func (e *Events) Flush() error { return e.w.Flush() }

// Close implements render.Renderer.
func (e *Events) Close(*resolve.Totals) error {
	for _, key := range sortedKeys(e.cpus) {
		e.gapEnds(key, e.cpus[key], e.late)
	}
	return e.w.End()
}

// event writes an event with its stack, or why it has none.
func (e *Events) event(h *resolve.Pending, rec *tracefs.Record, name string, st *resolve.Stack, missing string) {
	head, t := h.Head(rec), h.Time(rec)
	who := Thread{PID: head.TGID, TID: rec.TID, Comm: e.comms.Intern(head.Comm)}
	ev := Event{Type: Instant, Time: t, Track: e.w.Thread(who, t), Category: "stack", Name: name, Notes: e.notes[:0]}
	if st != nil {
		e.frames, ev.Cut = profile.AppendFrames(e.frames[:0], st)
		ev.Stack, ev.Functions = e.frames, st.Functions
		if len(ev.Stack) == 0 {
			missing = "no frames"
		}
	}
	if missing != "" {
		ev.Notes = append(ev.Notes, Note{"no_stack", missing})
	}
	if who.Comm == "" || who.Comm != e.w.Name(ev.Track) {
		ev.Notes = append(ev.Notes, Note{"comm", who.Comm})
	}
	if rec.CPU >= 0 {
		ev.Notes = append(ev.Notes, Note{"cpu", int64(rec.CPU)})
	}
	e.w.Event(&ev)
	e.notes = ev.Notes
}

// eventNameOf returns the name of an event by its text.
func eventNameOf(body []byte) string {
	name, _ := text.SplitEvent(body)
	if len(name.Name) == 0 {
		return "event"
	}
	return name.Prefix + string(name.Name)
}

// seen notes a record of a CPU, which ends what was lost before it.
func (e *Events) seen(h *resolve.Pending, rec *tracefs.Record) {
	if rec.CPU < 0 || rec.Body <= rec.Off {
		return
	}
	t, key := h.Time(rec), cpuKey{rec.Source, rec.CPU}
	e.late = max(e.late, t)
	if c := e.cpu(key); c != nil {
		e.gapEnds(key, c, t)
		c.last, c.seen = t, true
	}
}

// maxCPUs bounds the CPUs that are kept apart: a hostile trace may have any number.
const maxCPUs = 1 << 13

// cpu returns the state of a CPU, nil if there are too many.
func (e *Events) cpu(key cpuKey) *cpu {
	c := e.cpus[key]
	if c == nil && len(e.cpus) < maxCPUs {
		c = new(cpu)
		e.cpus[key] = c
	}
	return c
}

// lost notes that records of a CPU are lost, how many if the kernel has counted
// them.
func (e *Events) lost(rec *tracefs.Record) {
	if rec.CPU < 0 {
		if rec.Kind == tracefs.KindGap { // one record, of any CPU
			e.w.Gap(0, rec.CPU, e.late, e.late, 1)
		}
		return // else overwritten before the trace began
	}
	c := e.cpu(cpuKey{rec.Source, rec.CPU})
	if c == nil {
		e.w.Gap(int(rec.Source), rec.CPU, e.late, e.late, rec.Value)
		return
	}
	c.gap = true
	c.lost += rec.Value
}

func (e *Events) gapEnds(key cpuKey, c *cpu, t tracefs.Time) {
	if !c.gap {
		return
	}
	from := t
	if c.seen {
		from = c.last
	}
	e.w.Gap(int(key.source), key.cpu, from, t, c.lost)
	c.gap, c.lost = false, 0
}

// Gap writes a time in which records of a CPU were lost: how many, 0 if the kernel
// has not counted them.
func (w *Writer) Gap(buffer int, cpu int32, from, to tracefs.Time, records uint64) {
	e := Event{Type: Begin, Time: from, Track: w.Lost(buffer, cpu, from), Category: "lost", Name: "lost events"}
	if records > 0 {
		e.Notes = append(e.Notes, Note{"records", int64(min(records, 1<<62))})
	}
	w.Event(&e)
	w.Event(&Event{Type: End, Time: max(from, to), Track: e.Track})
}

func sortedKeys(m map[cpuKey]*cpu) []cpuKey {
	keys := slices.Collect(maps.Keys(m))
	sorting.Func(keys, func(x, y cpuKey) int {
		return cmp.Or(cmp.Compare(x.source, y.source), cmp.Compare(x.cpu, y.cpu))
	})
	return keys
}
