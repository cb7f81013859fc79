package render

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/cache"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// jsonSchema names the form of the JSON output. The number changes when a
// program that reads it would have to change; new keys do not change it.
const jsonSchema = "ustack.replay/1"

// flushAt is when the output buffer is written out; it fits the caches.
const flushAt = 256 << 10

// JSON writes one object a line, as help/formats.md of cmd/ustack documents: a
// header, an object for each event with its stack in it, for each loss and gap in
// its place, for each file mapping event, and at the end the totals.
type JSON struct {
	out     *gather
	res     *resolve.Resolver
	heads   headCache
	started bool
	limit   int64 // bytes of input after which the header no longer waits
	dialect resolve.Dialect
	escaped bool // the text of the batches is
	kept    kept
	written cache.Numbered[inBuffer] // by stack
}

// inBuffer is where a stack is in the output buffer, before the flush with a number.
type inBuffer struct {
	flush     int64
	from, end int
}

// writtenBits is for the stacks of the events of a flush; they are mostly near each
// other.
const writtenBits = 10

// NewJSON returns a renderer that writes to w. The header has the dialect of
// the first stack, if one is within the first limit bytes.
func NewJSON(w io.Writer, res *resolve.Resolver, limit int64) *JSON {
	return &JSON{out: newGather(w), res: res, limit: limit, kept: newKept(), written: cache.New[inBuffer](writtenBits)}
}

// Batch implements Renderer.
func (j *JSON) Batch(h *resolve.Pending) error {
	j.escaped = h.Escaped
	if !j.started {
		j.header(h)
	}
	if j.started && j.out.len()+j.stacksSize(h) > spillAt {
		if err := j.out.flush(); err != nil {
			return err
		}
	}
	for i := range h.Records {
		j.record(h, i)
		if j.started && j.out.full() {
			if err := j.out.flush(); err != nil {
				return err
			}
		}
	}
	if !j.started || j.out.len() < flushAt {
		return nil
	}
	return j.out.flush()
}

// stacksSize returns about how much the stacks of a batch will add to the
// output. They are far away in memory; here they are loaded all at once, later
// they would not be.
func (j *JSON) stacksSize(h *resolve.Pending) (size int) {
	for i := range h.Attached {
		if s := h.Attached[i].Stack; s != nil && s.ResultID != 0 {
			size += len(j.kept.results.Get(s.ResultID))
		}
	}
	return size
}

// Flush writes complete lines. There are none while the header waits for the first
// stack: its dialect must not depend on a pause of the trace.
func (j *JSON) Flush() error {
	if !j.started {
		return nil
	}
	return j.out.flush()
}

// header writes the first line once the dialect is known, or will not be.
func (j *JSON) header(h *resolve.Pending) {
	for i := range h.Records {
		rec := &h.Records[i]
		if h.Pos+int64(rec.Off) > j.limit {
			break
		}
		if rec.Kind == tracefs.KindStack && j.dialect == resolve.Auto {
			j.dialect = j.res.DialectOf(h.Batch, rec)
		}
	}
	if j.dialect == resolve.Auto && h.Pos+int64(len(h.Text)) <= j.limit {
		return
	}
	j.start()
}

// start puts the header before what has been rendered so far.
func (j *JSON) start() {
	j.started = true
	b := []byte(`{"type":"header","schema":"` + jsonSchema + `","dialect":"`)
	if j.dialect == resolve.Auto {
		b = append(b, `unknown"`...)
	} else {
		b = append(append(b, j.dialect.String()...), '"')
	}
	j.out.buf = append(append(b, "}\n"...), j.out.buf...)
}

// record writes a record.
func (j *JSON) record(h *resolve.Pending, i int) {
	rec, a := &h.Records[i], &h.Attached[i]
	switch rec.Kind {
	case tracefs.KindEvent:
		j.event(h, rec, a)
	case tracefs.KindMappingEvent:
		j.mappingEvent(h, rec, a)
	case tracefs.KindStack:
		if !a.Taken {
			j.stack(h, i)
		}
	case tracefs.KindCookie:
		if !a.Taken {
			j.open("cookie", h, rec)
			j.out.buf = appendHex(append(j.out.buf, `,"cookie":`...), rec.Value)
			j.end()
		}
	case tracefs.KindKernelStack:
		j.open("kernel_stack", h, rec)
		j.out.buf = appendText(j.out.buf, "text", h.Plain(h.Text[rec.Body:rec.End]))
		j.end()
	case tracefs.KindLost:
		j.out.buf = append(j.out.buf, `{"type":"lost"`...)
		if rec.CPU >= 0 {
			j.out.buf = strconv.AppendInt(append(j.out.buf, `,"cpu":`...), int64(rec.CPU), 10)
		}
		if rec.Value > 0 {
			j.out.buf = strconv.AppendUint(append(j.out.buf, `,"count":`...), rec.Value, 10)
		}
		j.end()
	case tracefs.KindGap:
		j.out.buf = append(j.out.buf, `{"type":"gap"`...)
		if rec.CPU >= 0 {
			j.out.buf = strconv.AppendInt(append(j.out.buf, `,"cpu":`...), int64(rec.CPU), 10)
		}
		j.out.buf = appendText(j.out.buf, "text", h.Raw(rec))
		j.end()
	case tracefs.KindNote:
		if h.Escaped && text.IsPlace(h.Raw(rec)) {
			return
		}
		j.out.buf = append(j.out.buf, `{"type":"note"`...)
		j.out.buf = appendText(j.out.buf, "text", h.Plain(h.Raw(rec)))
		j.end()
	}
}

func (j *JSON) end() { j.out.buf = append(j.out.buf, "}\n"...) }

// open writes the keys that every record with a header has: a stack of a BPF map has none.
func (j *JSON) open(kind string, h *resolve.Pending, rec *tracefs.Record) {
	b := append(j.out.buf, `{"type":"`...)
	b = append(b, kind...)
	switch {
	case rec.Flags&tracefs.Continued != 0:
		b = append(b, `","continued":true`...) // a piece of a record before
	case !h.Headed(rec): // of a BPF map
		b = append(b, '"')
	default:
		b = append(b, `","ts":"`...)
		b = j.heads.append(b, h, rec)
	}
	j.out.buf = b
}

func (j *JSON) event(h *resolve.Pending, rec *tracefs.Record, a *resolve.Attached) {
	if rec.Flags&tracefs.Continued != 0 {
		j.open("event", h, rec)
		j.out.buf = appendText(j.out.buf, "text", h.Plain(h.Raw(rec)))
		j.end()
		return
	}
	// Most of the output is made here: in one go.
	b := append(j.out.buf, `{"type":"event","ts":"`...)
	b = j.heads.append(b, h, rec)
	name, args := text.SplitEvent(h.Text[rec.Body:rec.End])
	b = append(append(b, `,"name":"`...), name.Prefix...)
	b = append(append(b, name.Name...), `","args":"`...) // of letters
	b = appendQuoted(b, "args", h.Plain(args))
	if rec.Flags&tracefs.Cut != 0 {
		b = append(b, `,"truncated":true`...)
	}
	if a.Cookie != 0 {
		b = appendHex(append(b, `,"cookie":`...), a.Cookie)
	}
	j.out.buf = b
	j.stacked(a)
	j.end()
}

// mappingEvent writes a mapping event. It has a stack, like any event.
func (j *JSON) mappingEvent(h *resolve.Pending, rec *tracefs.Record, a *resolve.Attached) {
	j.open("file_map", h, rec)
	ann := h.MappingEvent(rec)
	if ann.Bad != "" {
		j.out.buf = appendText(j.out.buf, "unusable", []byte(ann.Bad))
		j.out.buf = appendText(j.out.buf, "text", h.Plain(h.Text[rec.Body:rec.End]))
	} else {
		j.out.buf = appendIdentifier(append(j.out.buf, `,"identifier":`...), ann.ID)
		j.out.buf = appendText(j.out.buf, "path", ann.Path)
		if id, ok := filemap.ParseWords(ann.BuildID); ok && !id.IsZero() {
			j.out.buf = append(append(append(j.out.buf, `,"build_id":"`...), id.Hex()...), '"')
		}
	}
	j.attached(a)
	j.end()
}

// attached writes the cookie of an event, and its stack or why it has none.
func (j *JSON) attached(a *resolve.Attached) {
	if a.Cookie != 0 {
		j.out.buf = appendHex(append(j.out.buf, `,"cookie":`...), a.Cookie)
	}
	j.stacked(a)
}

// stacked writes the stack of an event, or why it has none.
func (j *JSON) stacked(a *resolve.Attached) {
	switch {
	case a.Stack != nil:
		j.shared(a.Stack)
	case a.Missing != resolve.NotMissing:
		j.out.buf = append(append(append(j.out.buf, `,"no_stack":"`...), a.Missing.String()...), '"')
	}
}

// shared writes a stack that events share. The events of one stack are mostly
// near each other, so the text for the first of them is often still in the
// buffer.
func (j *JSON) shared(s *resolve.Stack) {
	if id := s.ResultID; id != 0 && !s.Cut {
		kept := j.kept.results.Get(id)
		switch {
		case kept == nil:
		case j.started:
			j.out.refer(kept)
			return
		default:
			j.out.buf = append(j.out.buf, kept...)
			return
		}
		from, one := len(j.out.buf), stackOf(s)
		j.out.buf = j.frames(j.out.buf, &one, false, s.Stock)
		j.kept.results.Put(id, j.out.buf[from:])
		return
	}
	if m, ok := j.written.Get(s.ID); ok && m.flush == j.out.flushes {
		j.out.buf = append(j.out.buf, j.out.buf[m.from:m.end]...)
		return
	}
	from, one := len(j.out.buf), stackOf(s)
	j.out.buf = j.frames(j.out.buf, &one, s.Cut, s.Stock)
	if j.started {
		j.written.Put(s.ID, inBuffer{flush: j.out.flushes, from: from, end: len(j.out.buf)})
	}
}

// stack writes a stack that belongs to no event of the output.
func (j *JSON) stack(h *resolve.Pending, i int) {
	rec := &h.Records[i]
	j.open("stack", h, rec)
	switch {
	case rec.Flags&tracefs.Counted != 0:
		j.out.buf = strconv.AppendUint(append(j.out.buf, `,"count":`...), rec.Value, 10)
	case rec.Value != 0:
		j.out.buf = appendHex(append(j.out.buf, `,"cookie":`...), rec.Value)
	}
	s := stackAt(h, i)
	j.out.buf = j.frames(j.out.buf, &s, rec.Flags&tracefs.Cut != 0, rec.Flags&(tracefs.Deferred|tracefs.Continued) == 0)
	j.end()
}

// plain returns a piece of a batch's text as it was before it was escaped.
func (j *JSON) plain(piece []byte) []byte {
	if j.escaped {
		return escape.Undo(piece)
	}
	return piece
}

func appendHex(b []byte, v uint64) []byte {
	const digits = "0123456789abcdef"
	b = append(b, `"0x`...)
	for shift := max(bits.Len64(v)-1, 0) &^ 3; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return append(b, '"')
}

// appendText writes ,"key":"text". JSON holds characters, not bytes: where the
// text is no UTF-8, U+FFFD stands for each bad byte, and the bytes are given
// in hexadecimal as "key_hex".
func appendText(b []byte, key string, txt []byte) []byte {
	b = append(append(append(b, `,"`...), key...), `":"`...)
	return appendQuoted(b, key, txt)
}

// appendQuoted is appendText after the first quote of the text.
func appendQuoted(b []byte, key string, txt []byte) []byte {
	start := len(b)
	b = append(appendEscaped(b, txt), '"')
	if len(b)-start-1 != len(txt) && !utf8.Valid(txt) {
		b = append(append(append(b, `,"`...), key...), `_hex":"`...)
		b = append(hex.AppendEncode(b, txt), '"')
	}
	return b
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// plainWord reports whether eight bytes can stand in a JSON string as they are.
func plainWord(w uint64) bool {
	control := (w - ' '*everyByte) &^ w
	quote := w ^ '"'*everyByte
	slash := w ^ '\\'*everyByte
	del := w ^ 0x7f*everyByte
	return (w|control|(del-everyByte)&^del|(quote-everyByte)&^quote|(slash-everyByte)&^slash)&highBits == 0
}

// appendEscaped writes text as the inside of a JSON string.
func appendEscaped(b, txt []byte) []byte {
	i := 0
	for i < len(txt) {
		n := i
		for n+8 <= len(txt) && plainWord(binary.LittleEndian.Uint64(txt[n:])) {
			n += 8
		}
		for n < len(txt) && txt[n] >= ' ' && txt[n] < 0x7f && txt[n] != '"' && txt[n] != '\\' {
			n++
		}
		b = append(b, txt[i:n]...)
		if n == len(txt) {
			break
		}
		b, i = appendOne(b, txt, n)
	}
	return b
}

// appendOne writes the character at i, which needs care, and returns where the
// next one is.
func appendOne(b, txt []byte, i int) ([]byte, int) {
	const digits = "0123456789abcdef"
	switch c := txt[i]; {
	case c == '"' || c == '\\':
		return append(b, '\\', c), i + 1
	case c == '\n':
		return append(b, '\\', 'n'), i + 1
	case c == '\t':
		return append(b, '\\', 't'), i + 1
	case c < ' ' || c == 0x7f:
		return append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15]), i + 1
	}
	r, n := utf8.DecodeRune(txt[i:])
	if r == utf8.RuneError && n == 1 {
		return append(b, "\ufffd"...), i + 1
	}
	if escape.Acts(r) || r == 0x2028 || r == 0x2029 {
		return append(b, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15]), i + n
	}
	return append(b, txt[i:i+n]...), i + n
}
