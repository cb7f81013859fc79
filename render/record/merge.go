package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ustack/filemap/resolve"
	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/sorting"
	"ustack/tracefs/text"
)

// Merge counts the stacks of many reports by device. Times and numbers of
// threads mean something on one device only, so no event goes into the merged
// report: each stack does once, with how often it was seen where.
//
// A device is a boot: reports that name the same boot_id are of one. A report
// that names none counts as a separate device.
type Merge struct {
	devices []*device
	byBoot  map[string]*device
	stacks  map[stackKey]*counted
	key     *Compact // makes frames and identifiers
	found   []tracefs.Frame
	bytes   int // of stacks, see maxMergeBytes
	// weighted is set if a report stands for others.
	weighted bool
	reports  int
}

// device is a boot of a machine.
type device struct {
	number         int
	fields         []string // KEY=VALUE of its first report
	reports        int
	events, stacks int64
}

// stackKey is the unit of counting: an event by name, and the frames as text,
// or why there are none.
type stackKey struct{ event, frames string }

type counted struct {
	place    int // of the first one
	total    int64
	byDevice map[int]int64
	// report is the one that counts now, weight its own, and now how often it has the stack;
	// before is all of the others.
	report int
	weight float64
	now    int64
	before tally.Weighted
}

// count counts a stack in a report.
func (c *counted) count(r *MergedReport) {
	if c.report != r.number {
		c.estimate()
		c.report, c.weight = r.number, r.weight
	}
	c.now++
}

// estimate returns how often all reports have the stack, also those for which others stand.
func (c *counted) estimate() *tally.Weighted {
	if c.now > 0 {
		c.before.Add(c.weight, float64(c.now))
		c.now = 0
	}
	return &c.before
}

// maxStacks bounds the stacks that are kept apart, maxStackText the text of one, and
// maxMergeBytes all of them and their counts: one takes perStack besides its text, and
// perCount for each device.
const (
	maxStacks, maxStackText = 1 << 16, 64 << 10
	maxMergeBytes           = 48 << 20
	perStack, perCount      = 320, 48
	// maxFieldBytes bounds the head that is kept of a report.
	maxFieldBytes = 64 << 10
)

// otherStacks takes the place of the frames of stacks that were too many.
const otherStacks = " (no stack: too many)\n"

// errMerged: counts look like events.
var errMerged = errors.New("is a merged report: merge the reports that it is made of")

// NewMerge returns a Merge without reports.
func NewMerge() *Merge {
	m := &Merge{byBoot: make(map[string]*device), stacks: make(map[stackKey]*counted), key: NewCompact(nil)}
	m.key.Flat = true
	m.key.Unannounced = true
	return m
}

// Report returns a renderer that counts the next report. The batches must have
// events, and stacks must be stitched to them.
func (m *Merge) Report() *MergedReport {
	m.reports++
	return &MergedReport{m: m, number: m.reports, weight: 1}
}

// MergedReport counts one report. It implements render.Renderer.
type MergedReport struct {
	m      *Merge
	fields []string
	bytes  int     // of fields
	d      *device // nil until its first record
	number int
	weight float64 // for how many reports it stands
}

// Batch implements render.Renderer.
func (r *MergedReport) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec := &h.Records[i]
		switch {
		case rec.Kind == tracefs.KindNote && text.IsPlace(h.Raw(rec)):
		case rec.Kind == tracefs.KindNote && r.d == nil:
			if err := r.field(h.Plain(h.Raw(rec))); err != nil {
				return err
			}
		case rec.Flags&tracefs.Continued != 0:
		case rec.Kind == tracefs.KindEvent:
			r.device().events++
			r.count(h, rec, &h.Attached[i])
		case rec.Kind == tracefs.KindStack && !h.Attached[i].Taken:
			frames, txt := h.StackFrames(rec)
			out, _ := h.StackAttributions(i)
			r.device().stacks++
			r.add("", r.m.text(txt, frames, out))
		}
	}
	return nil
}

// Flush implements render.Renderer.
func (r *MergedReport) Flush() error { return nil }

// Close implements render.Renderer.
func (r *MergedReport) Close(*resolve.Totals) error {
	r.device()
	return nil
}

const reportLine = "# ustack: "

// field takes a line of the head.
func (r *MergedReport) field(line []byte) error {
	const most = 64
	field, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(reportLine))
	if ok && bytes.HasPrefix(field, []byte("devices=")) {
		return errMerged
	}
	if word, is := bytes.CutPrefix(field, []byte("weight=")); ok && is {
		w, err := strconv.ParseFloat(string(word), 64)
		if err != nil || !(w >= 1 && w <= tally.MaxWeight) {
			return fmt.Errorf("its weight is not a number from 1 to %d", int64(tally.MaxWeight))
		}
		r.weight, r.m.weighted = w, r.m.weighted || w > 1
		return nil
	}
	if ok && len(r.fields) < most && r.bytes+len(field) <= maxFieldBytes && bytes.IndexByte(field, '=') > 0 {
		r.fields = append(r.fields, string(field))
		r.bytes += len(field)
	}
	return nil
}

// device returns the device that the report is of.
func (r *MergedReport) device() *device {
	if r.d != nil {
		return r.d
	}
	boot := ""
	for _, f := range r.fields {
		if id, ok := strings.CutPrefix(f, "boot_id="); ok {
			boot = id
		}
	}
	if r.d = r.m.byBoot[boot]; r.d == nil || boot == "" {
		r.d = &device{number: len(r.m.devices) + 1, fields: r.fields}
		r.m.devices = append(r.m.devices, r.d)
		if boot != "" {
			r.m.byBoot[boot] = r.d
		}
	}
	r.d.reports++
	return r.d
}

// count counts an event.
func (r *MergedReport) count(h *resolve.Pending, rec *tracefs.Record, a *resolve.Attached) {
	name, _ := text.SplitEvent(h.Text[rec.Body:rec.End])
	event := name.Prefix + string(name.Name)
	switch {
	case a.Stack != nil:
		r.d.stacks++
		r.add(event, r.m.text(a.Stack.Text, a.Stack.Frames, a.Stack.Attributions))
	case a.Missing != resolve.NotMissing:
		r.add(event, fmt.Sprintf(" (no stack: %s)\n", a.Missing))
	default:
		r.add(event, "")
	}
}

func (r *MergedReport) add(event, frames string) {
	m, d := r.m, r.d.number
	key := stackKey{event, frames}
	c := m.stacks[key]
	size := 0
	if c == nil {
		size = perStack + len(event) + len(frames)
	}
	if c == nil || c.byDevice[d] == 0 {
		size += perCount
	}
	if size > 0 && m.bytes+size > maxMergeBytes || c == nil && len(m.stacks) >= maxStacks {
		key = stackKey{"", otherStacks}
		c = m.stacks[key]
	} else {
		m.bytes += size
	}
	if c == nil {
		c = &counted{byDevice: make(map[int]int64), place: len(m.stacks)}
		m.stacks[key] = c
	}
	c.total++
	c.byDevice[d]++
	c.count(r)
}

// text returns a stack as it stands in a report. A frame in no file has no
// number: addresses mean nothing on another device.
func (m *Merge) text(txt []byte, frames []tracefs.Frame, out []resolve.Attribution) string {
	c := m.key
	c.buf = m.appendHow(c.buf[:0], frames)
	for k := range frames {
		if len(c.buf) > maxStackText {
			break
		}
		if frames[k].Inferred() {
			continue
		}
		if o := &out[k]; o.File == nil {
			c.buf = tracefs.AppendAddrText(c.buf, 0)
			if o.Memory != nil {
				c.buf = text.AppendName(append(c.buf, " : "...), o.Memory.Name)
			}
			c.reason(o.Reason)
		} else {
			c.frame(txt, &frames[k], o)
		}
		c.buf = append(c.buf, '\n')
	}
	c.all = append(c.all, c.fresh...)
	c.fresh = c.fresh[:0]
	return string(c.buf)
}

// appendHow appends how the frames of a stack were found, if ustack has unwound it.
func (m *Merge) appendHow(b []byte, frames []tracefs.Frame) []byte {
	if len(frames) == 0 || !frames[0].Followed() {
		return b
	}
	m.found = m.found[:0]
	for k := range frames {
		if !frames[k].Inferred() {
			m.found = append(m.found, frames[k])
		}
	}
	return append(text.AppendUnwound(b, m.found), '\n')
}

// WriteTo writes the merged report to a file, the most frequent stacks first.
func (m *Merge) WriteTo(f *File) error {
	head := appendHead(nil, FieldsOf("devices", fmt.Sprint(len(m.devices))))
	for _, d := range m.devices {
		for _, field := range d.fields {
			head = escape.Append(fmt.Appendf(head, "%sdevice%d.", reportLine, d.number), []byte(field))
			head = append(head, '\n')
		}
		head = fmt.Appendf(head, "%sdevice%d.reports=%d\n%sdevice%d.event_count=%d\n%sdevice%d.counted=%d\n", reportLine, d.number, d.reports,
			reportLine, d.number, d.events, reportLine, d.number, d.stacks)
	}
	if _, err := f.Write(head); err != nil {
		return err
	}
	out := NewCompact(f)
	out.Identifiers = m.key.Identifiers
	if err := out.knownBy(appendMergedHead(nil, 0), m.key, func() bool { return true }); err != nil {
		return err
	}
	for i, s := range m.sorted() {
		if _, err := f.Write(m.appendCounted(nil, i+1, s)); err != nil {
			return err
		}
	}
	return nil
}

// appendMergedHead appends the head of a record that no device has written. Its
// time is its place.
func appendMergedHead(b []byte, place int) []byte {
	const perSecond = 1_000_000
	return fmt.Appendf(b, "%16s-%-7d [000] ..... %5d.%06d: ", "ustack", 1, place/perSecond, place%perSecond)
}

func (m *Merge) sorted() []stackKey {
	var all []stackKey
	for key := range m.stacks {
		all = append(all, key)
	}
	sorting.Func(all, func(x, y stackKey) int {
		a, b := m.stacks[x], m.stacks[y]
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(x.event, y.event), cmp.Compare(a.place, b.place))
	})
	return all
}

// appendEstimate appends how often all reports have a stack, and the bounds of that.
func (c *counted) appendEstimate(b []byte) []byte {
	w := c.estimate()
	low, high := w.Bounds()
	b = fmt.Appendf(b, " estimate=%.0f at_least=%.0f", w.Total, math.Floor(low))
	if math.IsInf(high, 1) {
		return b
	}
	return fmt.Appendf(b, " at_most=%.0f", math.Ceil(high))
}

// appendCounted appends an event with how often a stack was seen where, and the
// stack.
func (m *Merge) appendCounted(b []byte, place int, s stackKey) []byte {
	c := m.stacks[s]
	b = fmt.Appendf(appendMergedHead(b, place), "stack_count: event=%s count=%d by_device=", cmp.Or(s.event, "none"), c.total)
	first := true
	for _, d := range m.devices {
		if n := c.byDevice[d.number]; n > 0 {
			if !first {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, "%d:%d", d.number, n)
			first = false
		}
	}
	if m.weighted {
		b = c.appendEstimate(b)
	}
	if why, ok := strings.CutPrefix(s.frames, " (no stack: "); ok {
		return fmt.Appendf(b, " no_stack=%s\n", strings.ReplaceAll(strings.TrimSuffix(why, ")\n"), " ", "_"))
	}
	b = append(b, '\n')
	if s.frames == "" {
		return b
	}
	b = text.AppendStockTitle(appendMergedHead(b, place))
	if strings.HasPrefix(s.frames, text.UnwoundMark) {
		return append(b, s.frames...)
	}
	return append(append(b, '\n'), s.frames...)
}
