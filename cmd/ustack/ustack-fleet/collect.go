package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"ustack/cmd/ustack/internal/tables"
	"ustack/filemap"
	"ustack/render/tally"
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

// stack is a stack of the report.
type stack struct {
	row    stackRow
	frames []frameRow
	trust  filemap.Trust
	sum    []byte
	site   *frameRow
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

// trustOf returns the trust of a word.
func trustOf(word string) filemap.Trust {
	for _, t := range []filemap.Trust{filemap.Verified, filemap.Announced, filemap.Inferred, filemap.Late, filemap.Claimed} {
		if word == t.String() {
			return t
		}
	}
	return 0
}

// weight orders trust: a stack is trusted as its least trusted frame.
func weight(t filemap.Trust) int {
	for i, one := range []filemap.Trust{0, filemap.Verified, filemap.Announced, filemap.Inferred, filemap.Late, filemap.Claimed} {
		if t == one {
			return i
		}
	}
	return 0
}

// add adds a frame.
func (s *stack) add(f frameRow, t filemap.Trust) {
	s.frames = append(s.frames, f)
	if weight(t) > weight(s.trust) {
		s.trust = t
	}
	switch {
	case f.Path == nil:
		s.sum = appendText(append(s.sum, 'r'), f.Reason)
	case f.BuildID != nil:
		s.sum = appendText(append(s.sum, 'b'), f.BuildID)
	default:
		s.sum = appendText(append(s.sum, 'p'), f.Path)
	}
	if f.Offset != nil {
		s.sum = binary.LittleEndian.AppendUint64(s.sum, uint64(*f.Offset))
	}
	if f.Ran && f.Depth > 0 {
		s.sum = append(s.sum, 'i')
	}
	if s.site == nil && f.Path != nil && (&filemap.File{Path: *f.Path}).Application() {
		site := f
		s.site = &site
	}
}

// appendText appends a text with its length.
func appendText(b []byte, text *string) []byte {
	if text == nil {
		return binary.LittleEndian.AppendUint32(b, 0)
	}
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(*text))+1), *text...)
}

// endStack gives the open stack its key.
func (c *collector) endStack() {
	s := c.open
	if s == nil {
		return
	}
	c.open = nil
	if s.row.Cut {
		s.sum = append(s.sum, 'c')
	}
	s.row.Stack, s.row.Frames = stackKey(s.sum), int32(len(s.frames))
	for i := range s.frames {
		s.frames[i].Stack = s.row.Stack
	}
	s.sum = nil
}

// stackKey returns the key of a stack: the first 8 bytes of the SHA-256 of its frames, little-endian.
// Samples of all devices show the frames of the first stack with their key, so that no device may
// make one with the key of another's, which is easy with xxhash.
func stackKey(frames []byte) uint64 {
	sum := sha256.Sum256(frames)
	return binary.LittleEndian.Uint64(sum[:])
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
	key := xxhash.Sum64(sum)
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
}

// recordingOf returns the key of the recording that a report is of.
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

// some returns a text, nil if it is empty.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
