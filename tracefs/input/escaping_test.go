package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

const ownHead = text.Head

// ownEvent is an event as we write it.
func ownEvent(comm string, tid, cpu int, stamp, body string) string {
	return fmt.Sprintf("%s%s-%-7d [%03d] ..... %12s: %s\n", strings.Repeat(" ", 16-len(comm)), escape.Append(nil, []byte(comm)), tid, cpu, stamp,
		escape.Append(nil, []byte(body)))
}

// read is what is read of a record.
type read struct {
	kind             tracefs.Kind
	comm, body, path string
}

// reads reads a trace to its end.
func reads(t testing.TB, names []string, opt Options) (out []read) {
	t.Helper()
	trace, err := OpenAll(names, nil, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, trace)
	var b tracefs.Batch
	for err == nil {
		err = trace.Next(&b)
		for i := range b.Records {
			r := &b.Records[i]
			one := read{kind: r.Kind, comm: string(b.Head(r).Comm), body: string(b.Plain(b.Text[max(r.Body, r.Off):r.End]))}
			if r.Kind == tracefs.KindMappingEvent {
				one.path = string(b.MappingEvent(r).Path)
			}
			out = append(out, one)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return out
}

// hostile are records with untrusted strings.
var hostile = event("a\nb", 7, 0, "1.000001", "tick: one\ntwo\\012\x1b[31m\nthree") +
	event("plain", 8, 0, "1.000002", "tick: C:\\dir ü\xff") +
	event("x\\012", 9, 0, "1.000003", "file_map: hash=0xa path=/tmp/\tx\ny\\134 build_id={0x1,0x2,0x3,0x4,0x5}") +
	"# a\tcomment\n" +
	event("plain", 8, 1, "1.000004", "<user stack unwind>") + "cookie=5\n =>  <0000000000001234> : 0xa\n =>  <0000000000000012> : path=/tmp/\x01z\n" +
	event("plain", 8, 1, "1.000005", "<stack trace>") + " => do_it\n => \x7f\n" +
	"CPU:1 [LOST 3 EVENTS]\n"

// TestEscape: what the kernel printed is read the same when it is made escaped,
// and when that is read again.
func TestEscape(t *testing.T) {
	raw := file(t, "raw", []byte(hostile))
	want := reads(t, []string{raw}, Options{Events: true})
	if len(want) != 7 || want[0].comm != "a\nb" || !strings.HasSuffix(want[2].path, "y\\134") {
		t.Fatalf("the trace is read as %q", want)
	}
	trace, err := OpenAll([]string{raw}, nil, Options{Escape: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, trace)
	own := drain(t, trace)
	if own.err != nil || !own.escaped {
		t.Fatalf("escaped %v, error %v", own.escaped, own.err)
	}
	const text = `             a\012b-7       [000] .....     1.000001: tick: one\012two\134012\033[31m\012three` + "\n" +
		"           plain-8       [000] .....     1.000002: tick: C:\\dir ü\xff\n" +
		`           x\134012-9       [000] .....     1.000003: file_map: hash=0xa path=/tmp/\011x\012y\134134 build_id={0x1,0x2,0x3,0x4,0x5}` + "\n" +
		`# a\011comment` + "\n" +
		"           plain-8       [001] .....     1.000004: <user stack unwind>\ncookie=5\n =>  <0000000000001234> : 0xa\n" +
		` =>  <0000000000000012> : path=/tmp/\001z` + "\n" +
		"           plain-8       [001] .....     1.000005: <stack trace>\n => do_it\n => \\177\n" +
		"CPU:1 [LOST 3 EVENTS]\n"
	if own.text != text {
		t.Errorf("written as\n%s", own.text)
	}
	for _, opt := range []Options{{Escape: true}, {Events: true}, {Events: true, Escape: true}} {
		for _, name := range []string{raw, file(t, "own", []byte(ownHead+own.text))} {
			if name == raw && !opt.Escape {
				continue
			}
			if got := reads(t, []string{name}, opt); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, with %+v: read as\n%q, want\n%q", name, opt, got, want)
			}
		}
	}
}

// TestMergeEscaped: of inputs of which one is escaped, all become so; of inputs
// of which none is, none does.
func TestMergeEscaped(t *testing.T) {
	raw := file(t, "raw", []byte(hostile))
	other := file(t, "other", []byte(event("cat", 5, 0, "0.500000", "tick: a\nb\\012")))
	own := file(t, "own", []byte(ownHead+ownEvent(`c\012`, 5, 0, "0.500000", "tick: a\nb\\012")))
	want := append(reads(t, []string{other}, Options{Events: true}), reads(t, []string{raw}, Options{Events: true})...)
	for _, c := range []struct {
		name    string
		escaped bool
	}{{other, false}, {own, true}} {
		got := readAll(t, nil, raw, c.name)
		if got.err != nil || got.escaped != c.escaped || strings.Contains(got.text, ownHead) {
			t.Errorf("%s: escaped %v, error %v, text\n%s", c.name, got.escaped, got.err, got.text)
		}
		if c.escaped {
			want[0].comm = `c\012`
		}
		if records := reads(t, []string{raw, c.name}, Options{}); !reflect.DeepEqual(records, want) {
			t.Errorf("%s: read as\n%q, want\n%q", c.name, records, want)
		}
	}
}

// TestOwnHead: what an input is, is seen however its beginning comes in, and
// where it is not at the beginning it is a comment.
func TestOwnHead(t *testing.T) {
	body := event("cat", 5, 0, "0.500000", `tick: a\012b`)
	for _, c := range []struct {
		text    string
		escaped bool
	}{
		{ownHead + body, true}, {ownHead, true}, {body, false}, {body + ownHead + body, false}, {"\n" + ownHead + body, false},
		{ownHead[:10] + "\n" + body, false}, {"# tracer: nop\n" + body, false}, {"", false}, {ownHead[:10], false},
	} {
		got := drain(t, newSource(&File{Name: "x", r: bytes.NewReader([]byte(c.text))}, true))
		slow := drain(t, newSource(&File{Name: "x", r: &drips{text: c.text}}, true))
		if got.err != nil || got.escaped != c.escaped || !reflect.DeepEqual(got, slow) {
			t.Errorf("%q: escaped %v, error %v; byte by byte %+v", c.text, got.escaped, got.err, slow)
		}
	}
	got := drain(t, newSource(&File{Name: "x", r: strings.NewReader("# ustack: escaped=2\n" + body)}, true))
	if !errors.Is(got.err, text.ErrLayout) || !strings.Contains(fmt.Sprint(got.err), "later version") {
		t.Errorf("of a later version: %v", got.err)
	}
}

// TestOwnPause: a pipe that pauses inside the head is waited for, and that it
// pauses is said.
func TestOwnPause(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, r)
	body := event("cat", 5, 0, "0.500000", `tick: a\012b`)
	if _, err := w.WriteString(ownHead[:7]); err != nil {
		t.Fatal(err)
	}
	in, err := open("pipe", r)
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(in, true)
	s.Pause = time.Millisecond
	var b tracefs.Batch
	var text []byte
	pauses := 0
	for err = s.Next(&b); err == nil; err = s.Next(&b) {
		text = append(text, b.Text...)
		if !b.Paused {
			continue
		}
		if pauses++; pauses == 1 { // not sooner, or a slow reader sees no pause
			_, _ = w.WriteString(ownHead[7:] + body)
			_ = w.Close()
		}
	}
	text = append(text, b.Text...)
	if err != io.EOF || string(text) != body || !b.Escaped || pauses == 0 {
		t.Errorf("%q, escaped %v, %d pauses, error %v", text, b.Escaped, pauses, err)
	}
}

// drips gives one byte at a time.
type drips struct{ text string }

func (d *drips) Read(b []byte) (int, error) {
	if len(d.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:1], d.text)
	d.text = d.text[n:]
	return n, nil
}

// TestPartsEscaped: a large file of ours is read in parts like one in order.
func TestPartsEscaped(t *testing.T) {
	var many strings.Builder
	many.WriteString(ownHead)
	for i := range 20_000 {
		many.WriteString(ownEvent([]string{"cat", "b\n-1 [000] x", `\040`}[i%3], 7, i%4, fmt.Sprintf("%d.%06d", 100+i/1e6, i%1e6), "tick: a\nb\\012"))
	}
	name := file(t, "own", []byte(many.String()))
	in, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !in.isEscaped() {
		t.Error("not known to be ours")
	}
	trace := NewTrace([]*File{in}, Options{Events: true, Escape: true})
	got := drainBatches(t, newParts(trace, trace.Reader.(*Source), 2, 64<<10, seamSize))
	want := readAll(t, nil, name)
	if got.err != nil || !reflect.DeepEqual(got, want) || len(want.records) != 20_000 {
		t.Errorf("%d records, %d bytes; in order %d, %d; error %v", len(got.records), len(got.text), len(want.records), len(want.text), got.err)
	}
}
