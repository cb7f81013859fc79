package record

import (
	"fmt"
	"strings"
	"time"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// Drop selects the records that are left out first when a report gets too
// large.
type Drop uint8

const (
	// DropNewest ends the recording when the file is full.
	DropNewest Drop = iota
	// DropStacks leaves stacks out from three quarters on, so that more events
	// fit.
	DropStacks
)

// ParseDrop reads the value of --drop.
func ParseDrop(word string) (Drop, error) {
	switch word {
	case "newest":
		return DropNewest, nil
	case "stacks":
		return DropStacks, nil
	}
	return 0, fmt.Errorf("unknown thing to drop %q (one of newest, stacks)", word)
}

// Field is a line of a report's head, "# ustack: key=value".
type Field struct{ Key, Value string }

// Version is the version in the report's head.
const Version = "1"

// appendHead appends the head of a report.
func appendHead(b []byte, fields []Field) []byte {
	return appendFields(append(b, text.Head...), fields)
}

// appendFields appends the version and fields.
func appendFields(b []byte, fields []Field) []byte {
	b = append(b, "# ustack: version="+Version+"\n"...)
	for _, f := range fields {
		b = append(append(append(b, "# ustack: "...), f.Key...), '=')
		b = append(escape.Append(b, []byte(f.Value)), '\n')
	}
	return b
}

// appendEnd appends the last line of a report.
func appendEnd(b []byte, t *resolve.Totals, left Left) []byte {
	lost, exact := t.LostRecords()
	mark := ""
	if !exact {
		mark = ">="
	}
	return fmt.Appendf(b, "# ustack: end events=%d stacks=%d frames=%d resolved=%d files=%d lost=%s%d left_out_events=%d left_out_stacks=%d\n",
		t.Events, t.Stacks, t.Frames, t.Resolved(), t.Files, mark, lost, left.Events, left.Stacks)
}

// syncEvery is how much of a report a crash can lose.
const syncEvery = 500 * time.Millisecond

// Report writes a trace into a File as it comes. It implements render.Renderer.
type Report struct {
	file   *File
	text   *Compact
	drop   Drop
	synced time.Time
	now    func() time.Time
}

// ReportOptions configure a Report.
type ReportOptions struct {
	Drop   Drop
	Fields []Field
	// Redact takes secrets out, nil for a full report.
	Redact *redact.Redactor
	// Identifiers are the files' identifiers, nil for new ones.
	Identifiers *Identifiers
	// Before, if set, appends lines that come before an event: see Compact.
	Before func(b []byte, h *resolve.Pending, event *tracefs.Record) []byte
}

// NewReport begins a report with its head. If the file has a largest size, or
// is redacted, the batches must have events.
func NewReport(file *File, opt ReportOptions) (*Report, error) {
	r := &Report{file: file, drop: opt.Drop, now: time.Now}
	r.text = NewCompact(file)
	r.text.Redact, r.text.Identifiers, r.text.Before = opt.Redact, opt.Identifiers, opt.Before
	if file.max > 0 {
		r.text.room = file.Room
	}
	head := appendHead(nil, opt.Fields)
	if opt.Redact != nil {
		head = opt.Redact.AppendNote(nil, head)
	}
	if _, err := file.Write(head); err != nil {
		return nil, err
	}
	r.synced = r.now()
	return r, file.Sync()
}

// Known announces all files that were mapped, with the head of a record, also
// files that no stack shows. They take a quarter of a small report at most;
// files of stacks are announced anyway.
func (r *Report) Known(head []byte, files []*filemap.File) error {
	return r.text.Known(head, files, r.roomForKnown)
}

// KnownBy is Known for the files that the stacks of another text have needed.
func (r *Report) KnownBy(head []byte, o *Compact) error {
	return r.text.knownBy(head, o, r.roomForKnown)
}

func (r *Report) roomForKnown() bool {
	const quarter = 4
	return r.file.max == 0 || r.file.out.n+r.file.pending < r.file.max/quarter
}

// Full reports whether nothing is written any more.
func (r *Report) Full() bool { return r.text.Full }

// Left returns what was left out, because of the largest size.
func (r *Report) Left() Left { return r.text.Left }

// Batch implements render.Renderer.
func (r *Report) Batch(h *resolve.Pending) error {
	const quarter = 4
	if r.drop == DropStacks && r.file.max > 0 && r.file.Size() > r.file.max-r.file.max/quarter {
		r.text.NoStacks = true
	}
	if err := r.text.Batch(h); err != nil {
		return err
	}
	if now := r.now(); now.Sub(r.synced) >= syncEvery {
		return r.sync(now)
	}
	return nil
}

func (r *Report) sync(now time.Time) error {
	r.synced = now
	return r.file.Sync()
}

// Flush implements render.Renderer: nothing comes for a while.
func (r *Report) Flush() error { return r.sync(r.now()) }

// Close implements render.Renderer: the report is whole.
func (r *Report) Close(t *resolve.Totals) error { return r.file.Finish(r.text.End(t, r.text.Left)) }

// FieldsOf makes fields of a list of keys and values.
func FieldsOf(pairs ...string) []Field {
	var fields []Field
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := strings.TrimSpace(pairs[i+1]); value != "" {
			fields = append(fields, Field{pairs[i], value})
		}
	}
	return fields
}
