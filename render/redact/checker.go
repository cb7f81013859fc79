package redact

import (
	"bytes"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// Leak is something in a report that is neither harmless nor a token.
type Leak struct {
	Line int64  // from 1
	Byte int64  // of the text, from 0
	Text string // of which at most 80 bytes
	What string // that it is
}

// Checker looks for leaks in the batches of a trace, read with all events and
// without templates. It needs no key: the form of a token can be checked.
type Checker struct {
	// Leaks are the first leaks, Count counts all.
	Leaks []Leak
	Count int64

	g         grammar
	b         *tracefs.Batch
	line, pos int64 // of counted
	counted   int
	announced map[uint64]bool
	used      map[uint64]Leak // identifiers that were not announced yet
}

const maxLeaks, maxLeakText, maxIdentifiers = 1000, 80, 1 << 16

// NewChecker returns a Checker for an allow-list of paths.
func NewChecker(paths Paths) *Checker {
	c := &Checker{announced: make(map[uint64]bool), used: make(map[uint64]Leak)}
	c.g = grammar{paths: paths, words: vocabulary(), out: c}
	return c
}

// Batch looks at a batch.
func (c *Checker) Batch(b *tracefs.Batch) {
	c.b, c.counted, c.line, c.pos = b, 0, b.Line+1, b.Pos
	c.g.escaped = b.Escaped
	from := uint32(0)
	for i := range b.Records {
		rec := &b.Records[i]
		c.g.free(b.Text[from:rec.Off])
		from = rec.End
		c.record(rec)
	}
	c.g.free(b.Text[from:])
}

// End is called after the last batch: an identifier that no mapping event
// explains may be anything.
func (c *Checker) End() {
	for v, leak := range c.used {
		if !c.announced[v] {
			c.add(leak)
		}
	}
	clear(c.used)
}

func (c *Checker) record(rec *tracefs.Record) {
	head, body := c.b.Text[rec.Off:rec.Body], c.b.Text[rec.Body:rec.End]
	if len(head) > 0 {
		if !HasColumns(head, c.b.Escaped) {
			c.leak(head, "a head without columns")
			return
		}
		c.g.head(head)
	}
	switch {
	case rec.Kind == tracefs.KindStack:
		c.stack(rec)
	case rec.Kind == tracefs.KindMappingEvent && c.b.MappingEvent(rec).Bad == "":
		c.mappingEvent(rec)
	case rec.Flags&tracefs.Continued != 0:
		c.g.free(body)
	case rec.Kind == tracefs.KindKernelStack:
		c.g.kernelStack(body)
	case len(head) == 0:
		c.g.note(body)
	default:
		c.g.body(body)
	}
}

func (c *Checker) stack(rec *tracefs.Record) {
	frames, txt := c.b.StackFrames(rec)
	from := rec.Body
	for k := range frames {
		f := &frames[k]
		c.g.free(txt[from:f.Off])
		c.g.frame(txt[f.Off:f.End])
		from = f.End
	}
	c.g.free(txt[from:rec.End])
}

// mappingEvent compares a mapping event with what a redactor would write.
func (c *Checker) mappingEvent(rec *tracefs.Record) {
	a := c.b.MappingEvent(rec)
	body := c.b.Text[rec.Body:rec.End]
	_, file, _ := bytes.Cut(body, []byte(" path="))
	path, words := text.SplitFile(bytes.TrimSuffix(file, []byte("\n")))
	c.g.text(path)
	id, _ := filemap.ParseWords(words)
	v, _ := a.ID.Hash64()
	want := text.AppendFileMap(nil, &tracefs.MappingEvent{ID: tracefs.HashIdentifier(v), Report: a.Report, Mark: a.Mark, Path: path, BuildID: []byte(id.Words())})
	if !bytes.Equal(body, want) || !c.mayAnnounce(v, path, id, a.Mark) {
		c.leak(body, "not a redactor's file mapping event")
		return
	}
	if len(c.announced) < maxIdentifiers {
		c.announced[v] = true
	}
}

// mayAnnounce reports whether a number is an identifier of a redactor's. Before
// reports were escaped, path and build ID made it.
func (c *Checker) mayAnnounce(v uint64, path []byte, id filemap.BuildID, mark tracefs.Mark) bool {
	if c.b.Escaped {
		return isIdentifier(v)
	}
	f := filemap.File{Path: string(path), BuildID: id}
	return v == f.Identifier(mark) || v == f.Identifier(tracefs.NoMark) // of many reports
}

// offset returns where a piece of the batch's text is. The capacity of each
// piece reaches to the end of the text's.
func (c *Checker) offset(p []byte) int { return cap(c.b.Text) - cap(p) }

func (c *Checker) leak(p []byte, what string) { c.add(c.at(p, what)) }

func (c *Checker) at(p []byte, what string) Leak {
	at := c.offset(p)
	if at < c.counted {
		c.counted, c.line = 0, c.b.Line+1
	}
	c.line += int64(bytes.Count(c.b.Text[c.counted:at], []byte{'\n'}))
	c.counted = at
	return Leak{Line: c.line, Byte: c.pos + int64(at), Text: string(p[:min(len(p), maxLeakText)]), What: what}
}

func (c *Checker) add(l Leak) {
	c.Count++
	if len(c.Leaks) < maxLeaks {
		c.Leaks = append(c.Leaks, l)
	}
}

func (c *Checker) keep([]byte) {}

func (c *Checker) text(p []byte) {
	if !isToken(p, textMark) {
		c.leak(p, "no token")
	}
}

func (c *Checker) comm(p []byte) { c.text(p) }

func (c *Checker) name(p []byte) {
	if !isToken(p, nameMark) {
		c.leak(p, "no known name")
	}
}

func (c *Checker) path(p []byte) {
	if !isPathToken(p) {
		c.leak(p, "a path that is not allowed")
	}
}

func (c *Checker) address(p []byte, v uint64) {
	if !IsAddress(v) {
		c.leak(p, "an address")
	}
}

func (c *Checker) narrow(p []byte, _ uint64) { c.leak(p, "the upper half of a register") }

func (c *Checker) identifier(p []byte, v uint64) {
	switch {
	case c.announced[v] || IsAddress(v):
	case len(c.used) >= maxIdentifiers:
		c.leak(p, "an identifier without a file mapping event")
	default:
		if _, ok := c.used[v]; !ok {
			c.used[v] = c.at(p, "an identifier without a file mapping event")
		}
	}
}

func (c *Checker) other(p []byte, _ string) { c.leak(p, "not of a head") }
