package text

// What the tests of this package share: records as plain values, and the
// checks that hold for any text.

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// A view is a record as its reader sees it, free of the batch that it came in.
type view struct {
	Kind     tracefs.Kind
	Flags    tracefs.Flags
	TID, CPU int32
	Value    uint64
	Text     string // the whole record
	Body     string // what follows the header
	Comm     string
	TGID     int32
	Columns  string // irq-info
	Stamp    string
	Time     tracefs.Time
	Frames   []frameView
	File     fileView
}

// A frameView is a frame of a view.
type frameView struct {
	Text, AddrText string
	Form           tracefs.Form
	ID             tracefs.Identifier
	Addr           uint64
}

// A fileView is what a mapping event says.
type fileView struct {
	ID            tracefs.Identifier
	Path, BuildID string
	HasBuildID    bool
	Bad           string
}

func viewOf(b *tracefs.Batch, r *tracefs.Record) view {
	v := view{
		Kind: r.Kind, Flags: r.Flags, TID: r.TID, CPU: r.CPU, Value: r.Value,
		Text: string(b.Raw(r)), TGID: tracefs.NoTID,
	}
	if r.Body > r.Off {
		head := b.Head(r)
		v.Comm, v.TGID, v.Columns, v.Stamp = string(head.Comm), head.TGID, string(head.Flags), string(head.Stamp)
		v.Time = b.Time(r)
		v.Body = string(b.Text[r.Body:r.End])
	}
	switch r.Kind {
	case tracefs.KindStack:
		v.Frames = frameViews(b, r)
	case tracefs.KindMappingEvent:
		a := b.MappingEvent(r)
		v.File = fileView{a.ID, string(a.Path), string(a.BuildID), a.BuildID != nil, a.Bad}
	}
	return v
}

func frameViews(b *tracefs.Batch, r *tracefs.Record) []frameView {
	var list []frameView
	frames, text := b.StackFrames(r)
	for k := range frames {
		f := &frames[k]
		list = append(list, frameView{
			Text: string(text[f.Off:f.End]), AddrText: string(text[f.Off:f.AddrEnd]),
			Form: f.Form, ID: f.ID, Addr: f.Address(text),
		})
	}
	return list
}

// scanned is what a scanner made of a text.
type scanned struct {
	records []view
	events  int64
	text    string // as far as it was taken
	err     error
}

// scan gives the scanner more text and returns what was left of it.
func (all *scanned) scan(t *testing.T, s *Scanner, text []byte, more More) []byte {
	t.Helper()
	b := tracefs.Batch{Text: bytes.Clone(text)}
	used, err := s.Scan(&b, more)
	all.err = err
	if used == 0 && err == nil {
		return text
	}
	if used != len(b.Text) {
		t.Fatalf("Scan took %d bytes and left %d in the batch", used, len(b.Text))
	}
	wellFormed(t, &b)
	for i := range b.Records {
		all.records = append(all.records, viewOf(&b, &b.Records[i]))
	}
	all.events += b.Events
	all.text += string(b.Text)
	return bytes.Clone(text[used:])
}

// scanPieces takes a text that comes in pieces, as input.Source does: what a Scan
// leaves is given again with the next piece after it.
func scanPieces(t *testing.T, s *Scanner, pieces ...[]byte) scanned {
	t.Helper()
	var all scanned
	var tail []byte
	for i, piece := range pieces {
		more := MoreSoon
		if i == len(pieces)-1 {
			more = MoreNever
		}
		if tail = all.scan(t, s, append(tail, piece...), more); all.err != nil {
			break
		}
	}
	return all
}

// plainScanner gives all records, as for merged inputs.
func plainScanner() *Scanner {
	s := NewScanner()
	s.Events = true
	return s
}

// templateScanner recognises stacks seen before, as for a single input.
func templateScanner() *Scanner {
	s := plainScanner()
	s.UseTemplates()
	return s
}

// slowScanner takes every line the long way.
func slowScanner() *Scanner {
	s := plainScanner()
	s.slow = true
	return s
}

// scan takes a whole text, in all ways there are, which must agree, and fails
// if a byte is lost.
func scan(t *testing.T, text string) []view {
	t.Helper()
	want := scanPieces(t, slowScanner(), []byte(text))
	if want.err != nil || want.text != text {
		t.Fatalf("%d of %d bytes were taken, error %v", len(want.text), len(text), want.err)
	}
	same(t, scanPieces(t, plainScanner(), []byte(text)), want)
	same(t, scanPieces(t, templateScanner(), []byte(text)), want)
	same(t, scanPieces(t, plainScanner(), cut(text, []byte{0})...), want)
	return want.records
}

// scanOne is the only record of a text.
func scanOne(t *testing.T, text string) view {
	t.Helper()
	list := scan(t, text)
	if len(list) != 1 {
		t.Fatalf("%q has %d records, want one: %+v", text, len(list), list)
	}
	return list[0]
}

// cut cuts a text into pieces of so many bytes and one, over and over.
func cut(text string, lengths []byte) [][]byte {
	rest := []byte(text)
	var pieces [][]byte
	for i := 0; len(rest) > 0 && len(lengths) > 0; i++ {
		n := min(int(lengths[i%len(lengths)])+1, len(rest))
		pieces = append(pieces, rest[:n:n])
		rest = rest[n:]
	}
	return append(pieces, rest)
}

// same fails unless two scans of a text have the same result.
func same(t *testing.T, got, want scanned) {
	t.Helper()
	if (got.err == nil) != (want.err == nil) {
		t.Fatalf("error %v, want %v", got.err, want.err)
	}
	if want.err != nil {
		return // how much went out before it is not fixed
	}
	if got.text != want.text || got.events != want.events {
		t.Fatalf("%d bytes, %d events, want %d bytes, %d events", len(got.text), got.events, len(want.text), want.events)
	}
	sameViews(t, got.records, want.records)
}

func sameViews(t *testing.T, got, want []view) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("record %d\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

// wellFormed holds a batch against what tracefs.Batch promises, whatever the
// text: records in order that do not overlap, frames in their records, counts
// that are right.
func wellFormed(t *testing.T, b *tracefs.Batch) {
	t.Helper()
	end, events := uint32(0), int64(0)
	for i := range b.Records {
		r := &b.Records[i]
		if r.Off < end || r.End < r.Off || int(r.End) > len(b.Text) {
			t.Fatalf("record %d at %d to %d, the one before ends at %d, the text at %d", i, r.Off, r.End, end, len(b.Text))
		}
		if r.Flags&tracefs.Continued == 0 && (r.Body < r.Off || r.Body > r.End) {
			t.Fatalf("record %d at %d to %d has its body at %d", i, r.Off, r.End, r.Body)
		}
		if r.Kind == tracefs.KindEvent && r.Flags&tracefs.Continued == 0 {
			events++
		}
		if r.Kind == tracefs.KindStack {
			framesInOrder(t, b, r)
		}
		if at := b.Time(r); r.Body > r.Off && b.Late > 0 && (at < b.Early || at > b.Late) {
			t.Fatalf("record %d has time %d, the batch those from %d to %d", i, at, b.Early, b.Late)
		}
		end = r.End
	}
	if b.Events < events {
		t.Fatalf("%d events counted, %d have records", b.Events, events)
	}
	if n := int64(bytes.Count(b.Text, []byte{'\n'})); b.Lines != n {
		t.Fatalf("%d lines counted, %d are there", b.Lines, n)
	}
}

// framesInOrder looks for each frame's text in the record, after the frame before
// it.
func framesInOrder(t *testing.T, b *tracefs.Batch, r *tracefs.Record) {
	t.Helper()
	rest := b.Raw(r)
	for _, f := range frameViews(b, r) {
		at := bytes.Index(rest, []byte(f.Text))
		if at < 0 || !strings.HasPrefix(f.Text, f.AddrText) {
			t.Fatalf("frame %q (stem %q) is not in the rest of its record, %q", f.Text, f.AddrText, rest)
		}
		rest = rest[at+len(f.Text):]
	}
}

// window is the whole lines of a capture in some bytes around the first place
// with a text.
func window(t testing.TB, name, around string, size int) string {
	t.Helper()
	text := string(capturetest.Read(t, "../../testdata/captures/"+name+"/trace.txt.zst"))
	at := strings.Index(text, around)
	if at < 0 {
		t.Fatalf("%s has no %q", name, around)
	}
	from := max(at-size/2, 0)
	from += strings.IndexByte(text[from:], '\n') + 1
	to := strings.LastIndexByte(text[:min(from+size, len(text))], '\n') + 1
	return text[from:to]
}
