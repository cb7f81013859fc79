package text

import (
	"bytes"
	"regexp"

	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// header is the part of a record before its body.
type header struct {
	body     int // length of the header, where the body begins
	tid, cpu int32
}

// A layout is one way to write headers (FORMATS 1.1 and 1.2). All of them end
// with "time: ".
type layout interface {
	tracefs.HeadDecoder
	// parse reads the header at the beginning of text, which may go on after it for
	// any length.
	parse(text []byte) (header, bool)
	name() string
	// escapes is the same layout for text that is escaped.
	escapes() layout
}

// layouts in the order they are tried.
func layouts(escaped bool) []layout {
	return []layout{&columns{escaped: escaped}, latency(escaped), verboseLatency(escaped)}
}

// maxHeader bounds how far a header is looked for: 16 bytes of comm, all of them
// escaped, and numbers, each at its widest.
const maxHeader = 208

// commEnd returns where the column of width bytes ends that text begins with,
// -1 if that is no name: escaped, it can be longer.
func commEnd(text []byte, width int, escaped bool) int {
	if !escaped {
		return min(width, len(text))
	}
	end := escape.Len(text, width)
	if end > 0 && bytes.IndexByte(text[:end], '\n') >= 0 {
		return -1
	}
	return end
}

// CommEnd returns where the column of the task's name ends in a head of the
// usual layout, -1 if it is no such head.
func CommEnd(head []byte, escaped bool) int {
	end := commEnd(head, commWidth, escaped)
	if end < 0 || end >= len(head) || head[end] != '-' {
		return -1
	}
	return end
}

// ---- The usual layout ----

// columns is the layout of trace_print_context (kernel/trace/trace_output.c):
//
//	%16s-%-7d␠ [(%7d)␠] [%03d]␠ [FFFFF] ␠%5lu.%06lu:␠
//
// The kernel pads the comm to 16 bytes and a comm has at most 15, so byte 16
// is always '-', whatever the comm holds, line feeds included: columns are
// counted in the text of the record, not of its first line.
type columns struct {
	nanoseconds bool
	known       bool
	escaped     bool // the comm's 16 bytes may be more in the text
}

const commWidth = 16

// ColumnHeads decodes headers of the usual layout, escaped, for sources that write
// them.
func ColumnHeads(nanoseconds bool) tracefs.HeadDecoder {
	return &columns{nanoseconds: nanoseconds, known: true, escaped: true}
}

func (c *columns) escapes() layout {
	e := *c
	e.escaped = true
	return &e
}

func (c *columns) name() string { return "trace" }

func (c *columns) Nanoseconds() bool { return c.nanoseconds }

func (c *columns) parse(text []byte) (header, bool) {
	h, parts, ok := splitColumns(text, c.escaped)
	if !ok {
		return h, false
	}
	if !c.known {
		c.known, c.nanoseconds = true, bytes.IndexByte(parts.stamp, '.') >= 0
	}
	return h, true
}

// columnParts are the pieces of a header of the usual layout.
type columnParts struct {
	comm, tgid, flags, stamp []byte
}

// splitColumns takes a header of the usual layout apart. Fields are taken by
// their order, not by column, from the pid on: trace-cmd report pads them
// differently.
func splitColumns(text []byte, escaped bool) (h header, p columnParts, ok bool) {
	if len(text) > maxHeader {
		text = text[:maxHeader]
	}
	i := commEnd(text, commWidth, escaped)
	if i < 0 || len(text) < i+2 || text[i] != '-' {
		return h, p, false
	}
	p.comm = bytes.TrimLeft(text[:i], " ")
	i++
	tid, n := parseDec(text[i:])
	if n == 0 || tid > tracefs.MaxTID {
		return h, p, false
	}
	i += n
	if i = skipBlanks(text, i); i >= len(text) {
		return h, p, false
	}
	if text[i] == '(' {
		end := bytes.IndexByte(text[i:], ')')
		if end < 0 || !isTGID(text[i+1:i+end]) {
			return h, p, false
		}
		p.tgid = text[i+1 : i+end]
		i = skipBlanks(text, i+end+1)
	}
	if i >= len(text) || text[i] != '[' {
		return h, p, false
	}
	cpu, n := parseDec(text[i+1:])
	i += 1 + n
	if n < 3 || n > 6 || i >= len(text) || text[i] != ']' {
		return h, p, false
	}
	i++
	p.flags, p.stamp, n = flagsAndStamp(text[i:])
	if n == 0 {
		return h, p, false
	}
	return header{body: i + n, tid: int32(tid), cpu: int32(cpu)}, p, true
}

// flagsAndStamp reads "[ FLAGS] STAMP: ", n is its length. Flags are any run
// of non-blanks: their number depends on the kernel (FORMATS 1.1).
func flagsAndStamp(text []byte) (flags, stamp []byte, n int) {
	i := skipBlanks(text, 0)
	if i == 0 {
		return nil, nil, 0
	}
	word := nextWord(text[i:])
	if stamp, ok := cutStamp(word, text[i+len(word):]); ok {
		return nil, stamp, i + len(word) + 1
	}
	flags = word
	if len(flags) == 0 || len(flags) > 8 {
		return nil, nil, 0
	}
	i = skipBlanks(text, i+len(word))
	word = nextWord(text[i:])
	if stamp, ok := cutStamp(word, text[i+len(word):]); ok {
		return flags, stamp, i + len(word) + 1
	}
	return nil, nil, 0
}

// cutStamp reads "12.345678:" or "12345:" when a blank follows.
func cutStamp(word, rest []byte) ([]byte, bool) {
	stamp, ok := bytes.CutSuffix(word, []byte(":"))
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return nil, false
	}
	_, n := parseDec(stamp)
	if n > 0 && n < len(stamp) && stamp[n] == '.' {
		_, m := parseDec(stamp[n+1:])
		n += 1 + m
	}
	return stamp, n > 0 && n == len(stamp) && stamp[n-1] != '.'
}

func isTGID(b []byte) bool {
	b = bytes.TrimLeft(b, " ")
	_, n := parseDec(b)
	return string(b) == "-------" || n > 0 && n == len(b)
}

func skipBlanks(text []byte, i int) int {
	for i < len(text) && text[i] == ' ' {
		i++
	}
	return i
}

func nextWord(text []byte) []byte {
	for i, c := range text {
		if c == ' ' || c == '\n' {
			return text[:i]
		}
	}
	return text
}

// Head implements tracefs.HeadDecoder.
func (c *columns) Head(text []byte) tracefs.Head {
	odd := c.escaped && bytes.IndexByte(text[:min(commWidth, len(text))], '\\') >= 0
	if !odd {
		if head, ok := usualHead(text); ok {
			return head
		}
	}
	_, p, _ := splitColumns(text, c.escaped)
	if odd {
		p.comm = escape.Undo(p.comm)
	}
	head := tracefs.Head{Comm: p.comm, TGID: tracefs.NoTID, Flags: p.flags, Stamp: p.stamp}
	if tgid, n := parseDec(bytes.TrimLeft(p.tgid, " ")); n > 0 {
		head.TGID = int32(tgid)
	}
	return head
}

// UsualFlags returns the flag columns of a header whose pid and CPU have their usual
// widths and that has five of them, "%16s-%-7d [%03d] FFFFF ", else nil.
func UsualFlags(head []byte) []byte {
	const cpu, flags, end = 29, 31, 36
	if len(head) > end && head[cpu] == ']' && head[flags] != ' ' && head[end] == ' ' {
		return head[flags:end]
	}
	return nil
}

// usualHead takes a header apart, known to be one, whose pid and CPU have
// their usual widths and that has five flag columns and no tgid:
// "%16s-%-7d [%03d] FFFFF %5lu.%06lu: ".
func usualHead(text []byte) (head tracefs.Head, ok bool) {
	const flags, stamp = 31, tracefs.UsualHead
	if len(text) < stamp+3 || text[25] != '[' || text[29] != ']' || text[flags] == ' ' || text[stamp-1] != ' ' {
		return head, false
	}
	for _, c := range text[flags : stamp-1] {
		if c == ' ' {
			return head, false
		}
	}
	comm := 0
	for comm < commWidth && text[comm] == ' ' {
		comm++
	}
	at := stamp
	for text[at] == ' ' {
		at++
	}
	return tracefs.Head{
		Comm: text[comm:commWidth:commWidth], TGID: tracefs.NoTID,
		Flags: text[flags : stamp-1], Stamp: text[at : len(text)-len(": ")], Usual: true,
	}, true
}

// Time implements tracefs.HeadDecoder. The stamp ends the header, so it is read
// from the end.
func (c *columns) Time(text []byte) tracefs.Time {
	return parseStamp(text[:len(text)-len(": ")])
}

// parseStamp reads the digits that end text as seconds with a fraction, or as
// a plain count.
func parseStamp(text []byte) tracefs.Time {
	if t, ok := usualStamp(text); ok {
		return t
	}
	i := len(text)
	v, scale := int64(0), int64(1)
	fraction := int64(0) // the scale of the digits after the point
	for i > 0 {
		c := text[i-1]
		if c == '.' && fraction == 0 {
			fraction = scale
		} else if c-'0' <= 9 {
			v += int64(c-'0') * scale
			scale *= 10
		} else {
			break
		}
		i--
	}
	if fraction == 0 {
		return tracefs.Time(v)
	}
	for ; fraction < 1e9; fraction *= 10 {
		v *= 10
	}
	for ; fraction > 1e9; fraction /= 10 {
		v /= 10
	}
	return tracefs.Time(v)
}

// usualStamp is parseStamp for seconds with six decimals that have a blank in
// front.
func usualStamp(text []byte) (tracefs.Time, bool) {
	if len(text) < 16 {
		return 0, false
	}
	text = text[len(text)-16:]
	fraction := le64(text[8:]) // "3.290112"
	x := fraction>>16 ^ '0'*ones>>16
	if text[9] != '.' || (x|(x+0x060606060606))&0xf0f0f0f0f0f0 != 0 {
		return 0, false
	}
	seconds, scale, i := int64(0), int64(1), 8
	for ; i >= 0 && text[i]-'0' <= 9; i-- {
		seconds += int64(text[i]-'0') * scale
		scale *= 10
	}
	if i < 0 || text[i] != ' ' {
		return 0, false
	}
	return tracefs.Time(seconds*1e9 + int64(decimalWord(fraction>>16, 6))*1e3), true
}

// ---- Layouts of the latency tracers ----

// pattern is a layout that a regular expression describes. These layouts are
// seldom used for stacks, so they need not be fast.
type pattern struct {
	title string
	width int            // of the comm, in bytes
	re    *regexp.Regexp // of what follows it
	ns    bool
	known bool
	// escaped: as in columns.
	escaped bool
}

func (p *pattern) escapes() layout {
	e := *p
	e.escaped = true
	return &e
}

// latency returns the layout of option latency-format
// (trace_print_lat_context in kernel/trace/trace_output.c):
//
//	%8.8s-%-7d␠%3d FFFFF ␠%4lldus%c:␠   or, clocks not in ns,   ␠%4lld:␠
func latency(escaped bool) *pattern {
	return &pattern{
		title: "latency-format", width: 8, escaped: escaped,
		re: regexp.MustCompile(`^-(?P<tid>\d{1,7}) +(?P<cpu>\d{1,5})` +
			`(?P<flags>[^ \n0-9][^ \n]{3,4}) +(?P<stamp>\d+)(?P<us>us[$@*#!+ ])?: `),
	}
}

// verboseLatency returns the layout of latency-format with verbose:
//
//	%16s %7d %3d %d %08x %08lx [%08llx] %ld.%03ldms (+%ld.%03ldms):␠
//	%16s %7d %3d %d %08x %08lx [%016llx] %lld (+%lld):␠
func verboseLatency(escaped bool) *pattern {
	return &pattern{
		title: "latency-format with verbose", width: commWidth, escaped: escaped,
		re: regexp.MustCompile(`^ +(?P<tid>\d{1,7}) +(?P<cpu>\d{1,5}) \d+ [0-9a-f]{8} [0-9a-f]{8,16} ` +
			`\[[0-9a-f]{8,16}\] (?P<stamp>\d+(?:\.\d{3})?)(?P<us>ms)? \(\+[\d.]+(?:ms)?\): `),
	}
}

func (p *pattern) name() string { return p.title }

func (p *pattern) Nanoseconds() bool { return p.ns }

// match takes a header apart; the comm ends at end.
func (p *pattern) match(text []byte) (m [][]byte, end int) {
	if len(text) > maxHeader {
		text = text[:maxHeader]
	}
	end = commEnd(text, p.width, p.escaped)
	if end < p.width {
		return nil, 0
	}
	return p.re.FindSubmatch(text[end:]), end
}

func (p *pattern) group(m [][]byte, name string) []byte {
	if i := p.re.SubexpIndex(name); i >= 0 && i < len(m) {
		return m[i]
	}
	return nil
}

func (p *pattern) parse(text []byte) (header, bool) {
	m, end := p.match(text)
	if m == nil {
		return header{}, false
	}
	tid, _ := parseDec(p.group(m, "tid"))
	cpu, _ := parseDec(p.group(m, "cpu"))
	if tid > tracefs.MaxTID {
		return header{}, false
	}
	if !p.known {
		p.known, p.ns = true, len(p.group(m, "us")) > 0
	}
	return header{body: end + len(m[0]), tid: int32(tid), cpu: int32(cpu)}, true
}

// Head implements tracefs.HeadDecoder.
func (p *pattern) Head(text []byte) tracefs.Head {
	m, end := p.match(text)
	comm := bytes.TrimLeft(text[:end], " ")
	if p.escaped {
		comm = escape.Undo(comm)
	}
	return tracefs.Head{
		Comm: comm, TGID: tracefs.NoTID,
		Flags: p.group(m, "flags"), Stamp: p.group(m, "stamp"),
	}
}

// Time implements tracefs.HeadDecoder. Latency stamps count microseconds, or
// milliseconds with a fraction, from the beginning of the trace.
func (p *pattern) Time(text []byte) tracefs.Time {
	m, _ := p.match(text)
	t := parseStamp(p.group(m, "stamp"))
	switch string(p.group(m, "us")) {
	case "ms":
		return t / 1000
	case "":
		return t
	}
	return t * 1000
}
