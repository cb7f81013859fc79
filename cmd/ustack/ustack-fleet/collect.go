package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ustack/cmd/ustack/internal/tables"
	"ustack/tracefs"
)

// collector makes the rows of one report. It implements tables.Sink.
//
// Invariant: a stack gets its key when its last frame has come, which is before any other
// row that refers to it, but events; those wait for finish.
type collector struct {
	columns map[string]map[string]int // by table and name
	texts   texts
	head    map[string]string

	device  deviceRow
	endNS   int64
	counted map[eventKey]*counted
	order   []eventKey
	stacks  map[int64]*stack // by the number in the report
	open    *stack           // whose frames come
	locks   map[int64]*lock
	samples []sampleRow
}

// eventKey is what events of a report are counted by.
type eventKey struct {
	name  string
	stack int64
}

// counted are events of one kind.
type counted struct {
	first int64 // time stamp
	n     int64
}

// lock is a lock of the report.
type lock struct {
	is            bool // and not a condition variable, a join, ...
	kind, name    string
	path, buildID string // of the file with its variable
}

// Bounds on what a report may have: more is not one that ustack has recorded.
const (
	maxText    = 4 << 10
	maxTexts   = 32 << 20 // bytes of all texts that differ
	maxFrames  = 1 << 10
	maxSamples = 1 << 19
	maxKinds   = 1 << 17
	// maxSum bounds times and counts, in nanoseconds a hundred days: the sums of a thousand
	// such reports fit into 64 bits.
	maxSum = 1 << 53
)

// texts keeps each text of a report once.
type texts struct {
	known map[string]string
	bytes int
}

// keep returns a text that nothing changes.
func (t *texts) keep(s string) string {
	if known, ok := t.known[s]; ok {
		return known
	}
	s = strings.Clone(s)
	t.known[s] = s
	t.bytes += len(s)
	return s
}

func newCollector() *collector {
	c := &collector{
		columns: make(map[string]map[string]int), texts: texts{known: make(map[string]string)}, head: make(map[string]string), counted: make(map[eventKey]*counted),
		stacks: make(map[int64]*stack), locks: make(map[int64]*lock),
	}
	for _, t := range tables.All() {
		c.columns[t.Name] = make(map[string]int)
		for i, column := range t.Columns {
			c.columns[t.Name][column.Name] = i
		}
	}
	return c
}

// values are a row with the columns of its table.
type values struct {
	columns map[string]int
	row     []any
	texts   *texts
}

// number returns a column, 0 if it is NULL.
func (v *values) number(name string) int64 {
	n, _ := v.row[v.columns[name]].(int64)
	return n
}

// text returns a column, "" if it is NULL.
func (v *values) text(name string) string {
	s, _ := v.row[v.columns[name]].(string)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return v.texts.keep(s)
}

// optional returns a column, nil if it is NULL.
func (v *values) optional(name string) *int64 {
	if n, ok := v.row[v.columns[name]].(int64); ok {
		return &n
	}
	return nil
}

// Row implements tables.Sink.
func (c *collector) Row(table string, row []any) error {
	v := &values{c.columns[table], row, &c.texts}
	if table != "frames" {
		c.endStack()
	}
	if c.texts.bytes > maxTexts {
		return fmt.Errorf("more than %d bytes of names and paths", maxTexts)
	}
	switch table {
	case "head":
		if key := v.text("key"); c.head[key] == "" || key == "end" { // the first one counts
			c.head[key] = v.text("value")
		}
	case "events":
		return c.event(v)
	case "stacks":
		c.open = &stack{row: stackRow{Cut: v.number("cut") != 0, End: v.text("end")}}
		c.stacks[v.number("id")] = c.open
	case "frames":
		return c.frame(v)
	case "trace":
		return c.trace(v)
	case "locks":
		c.locks[v.number("id")] = &lock{is: v.number("is_lock") != 0, kind: v.text("kind"), name: v.text("name"), path: v.text("object"), buildID: v.text("object_build_id")}
	case "waits":
		return c.wait(v)
	}
	return nil
}

// errSums: the report has sums, and not single waits and events.
var errSums = errors.New("it has sums (of record --source=bpf, or of merge), and no single waits: these are not exported yet")

// isContext reports whether an event is one of those that waits are made of.
func isContext(name string) bool {
	return strings.HasSuffix(name, "_futex") || strings.HasPrefix(name, "sched_switch") || strings.HasPrefix(name, "sched_wak")
}

// event counts an event with a stack.
func (c *collector) event(v *values) error {
	key := eventKey{v.text("name"), v.number("stack")}
	if strings.HasPrefix(key.name, "ustack_futex_") || key.name == "stack_count" {
		return errSums
	}
	if key.stack == 0 || key.name == "" || isContext(key.name) {
		return nil
	}
	n := c.counted[key]
	if n == nil {
		if len(c.counted) >= maxKinds {
			return fmt.Errorf("more than %d kinds of events with different stacks", maxKinds)
		}
		n = &counted{first: v.number("ns")}
		c.counted[key] = n
		c.order = append(c.order, key)
	}
	n.n++
	return nil
}

// frame takes a frame of the open stack.
func (c *collector) frame(v *values) error {
	s := c.open
	if s == nil || len(s.frames) >= maxFrames {
		return fmt.Errorf("a stack of more than %d frames", maxFrames)
	}
	f := frameRow{Depth: int32(len(s.frames)), BuildID: some(v.text("build_id")), Path: some(v.text("file")), Reason: some(v.text("reason"))}
	f.Ran = f.Depth == 0 || v.number("inferred") != 0 || v.text("how") == tracefs.BySignal.String()
	if text := v.text("offset"); text != "" && f.Path != nil {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 63)
		if err != nil {
			return fmt.Errorf("reading the offset of a frame: %w", err)
		}
		at := int64(n)
		f.Offset = &at
	}
	s.add(f, trustOf(v.text("trust")))
	return nil
}

// trace takes the row of the trace.
func (c *collector) trace(v *values) error {
	if unit := v.text("time_unit"); unit != "ns" {
		return fmt.Errorf("its times are %s, and not nanoseconds", unit)
	}
	c.endNS = v.number("end_ns")
	d := &c.device
	d.Duration = max(c.endNS-v.number("start_ns"), 0)
	lost, refused := v.number("lost_records"), v.number("refused_records")
	d.Events, d.Lost, d.LostMore = v.number("events"), lost+refused, v.number("lost_more") != 0
	if min(lost, refused) < 0 || max(lost, refused) > maxSum || d.Duration > maxSum {
		return errors.New("its counts or times are too large")
	}
	return nil
}

// futexWait is the event of a wait.
const futexWait = "futex wait"

// wait takes a wait.
func (c *collector) wait(v *values) error {
	if len(c.samples) >= maxSamples {
		return fmt.Errorf("more than %d waits", maxSamples)
	}
	row := sampleRow{Event: futexWait, Weight: 1, Result: some(v.text("result")), Time: v.optional("from_ns")}
	if tid := int32(v.number("tid")); tid > 0 {
		row.TID = &tid
	}
	switch ns := v.optional("ns"); {
	case ns == nil || v.number("slept") == 0:
	case v.optional("to_ns") == nil || v.number("began_before") != 0:
		row.LowNS = ns
	default:
		row.NS, row.LowNS, row.HighNS = ns, ns, ns
		c.device.Waits++
		if c.device.WaitedNS += *ns; *ns > maxSum || c.device.WaitedNS > maxSum {
			return errors.New("its waits are too long")
		}
	}
	s := c.stacks[v.number("stack")]
	row.at(s)
	row.of(c.locks[v.number("lock")], s)
	if owner := c.stacks[v.number("waker_stack")]; owner != nil {
		sure := v.number("waker_sure") != 0
		row.OwnerStack, row.OwnerSure = &owner.row.Stack, &sure
	}
	c.samples = append(c.samples, row)
	return nil
}

// at says where the sample is of; s may be nil.
func (r *sampleRow) at(s *stack) {
	if s == nil {
		return
	}
	r.Stack, r.Trust = &s.row.Stack, some(s.trust.String())
	if s.site != nil {
		r.SitePath, r.SiteBuildID, r.SiteOffset, r.SiteRan = s.site.Path, s.site.BuildID, s.site.Offset, &s.site.Ran
	}
}

// of says which lock was waited for; l may be nil, and so may s.
func (r *sampleRow) of(l *lock, s *stack) {
	if l == nil {
		l = &lock{kind: "unknown"}
	}
	r.IsLock = &l.is
	r.LockKind, r.LockName, r.LockBuildID = some(l.kind), some(l.name), some(l.buildID)
	sum := appendText(nil, r.LockKind)
	switch {
	case r.LockName != nil:
		sum = appendText(appendFile(append(sum, 'n'), r.LockBuildID, some(l.path)), r.LockName)
	case s != nil && s.site != nil:
		sum = binary.LittleEndian.AppendUint64(appendFile(append(sum, 's'), s.site.BuildID, s.site.Path), offset(s.site))
		if s.site.Ran {
			sum = append(sum, 'i')
		}
	}
	key := hash(sum)
	r.LockKey = &key
}

// appendFile appends the build ID of a file, or its path if it has none.
func appendFile(b []byte, id, path *string) []byte {
	if id != nil {
		return appendText(append(b, 'b'), id)
	}
	return appendText(append(b, 'p'), path)
}

// offset returns the offset of a frame, all ones if it is unknown.
func offset(f *frameRow) uint64 {
	if f.Offset == nil {
		return 1<<64 - 1
	}
	return uint64(*f.Offset)
}

// some returns a text, nil if it is empty.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
