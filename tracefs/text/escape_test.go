package text

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// escapedScanner reads what Escape writes.
func escapedScanner() *Scanner {
	s := plainScanner()
	s.UseEscapes()
	return s
}

// values are what is read of the records of a batch, however the text is written.
func values(b *tracefs.Batch) (list []view) {
	plain := func(s string) string { return string(b.Plain([]byte(s))) }
	for i := range b.Records {
		v := viewOf(b, &b.Records[i])
		for n := escape.Index([]byte(v.Columns)); n >= 0; n = escape.Index([]byte(v.Columns)) { // damage
			v.Columns = v.Columns[:n] + "?" + v.Columns[n+1:]
		}
		v.Text, v.Body = "", plain(strings.TrimSuffix(v.Body, "\n"))
		v.Flags &^= tracefs.Glued
		if v.Kind == tracefs.KindStack {
			v.Body = "" // as the frames are
		}
		for k := range v.Frames {
			f := &v.Frames[k]
			if f.Form == tracefs.FormCut {
				f.Form, f.ID, f.AddrText, f.Text = tracefs.FormUnresolved, tracefs.Identifier{}, f.Text, f.Text+CutMark
				f.Addr = tracefs.ParseAddrText([]byte(f.AddrText))
			}
			f.Text, f.AddrText = plain(f.Text), plain(f.AddrText)
		}
		list = append(list, v)
	}
	return list
}

// scanAll is a batch of a whole text.
func scanAll(t *testing.T, s *Scanner, text []byte) (*tracefs.Batch, error) {
	t.Helper()
	b := &tracefs.Batch{Text: bytes.Clone(text)}
	used, err := s.Scan(b, MoreNever)
	if err == nil && used != len(text) {
		t.Fatalf("%d of %d bytes were taken", used, len(text))
	}
	return b, err
}

// checkEscape escapes a text, and holds what is read of it, before and after, and
// when it is read again, against each other.
func checkEscape(t *testing.T, text string) {
	t.Helper()
	b, err := scanAll(t, plainScanner(), []byte(text))
	if err != nil {
		return
	}
	want := values(b)
	Escape(b)
	wellFormed(t, b)
	if at := bytes.IndexFunc(bytes.ReplaceAll(b.Text, []byte("\t=> "), nil), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); at >= 0 {
		t.Fatalf("a control character at %d of %q", at, b.Text)
	}
	if got := values(b); !reflect.DeepEqual(got, want) {
		sameViews(t, got, want)
	}
	again, err := scanAll(t, escapedScanner(), b.Text)
	if err != nil {
		t.Fatalf("%q: %v", b.Text, err)
	}
	sameViews(t, values(again), want)
}

// FuzzEscape: what the kernel has printed is read the same when it is escaped.
func FuzzEscape(f *testing.F) {
	for _, p := range hardPlaces {
		f.Add(window(f, p.capture, p.around, 1500), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, text string, edits []byte) { checkEscape(t, edited(text, edits)) })
}

// TestEscape is the fuzz test with edits of its own making.
func TestEscape(t *testing.T) {
	runs := 3000
	if testing.Short() {
		runs = 300
	}
	for i := range runs {
		text, edits := hostile(t, i)
		checkEscape(t, edited(text, edits))
		if t.Failed() {
			t.Fatalf("run %d", i)
		}
	}
}

// TestEscapedHeads: the column of a name is as wide as it should be, and the name is
// read as it was, in all layouts.
func TestEscapedHeads(t *testing.T) {
	for _, comm := range []string{"cat", "", "a b-7 c: [x]", "a\nb-7 [000] x", "\x1b[31m\x00\x7f", `\012`, `\`, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", "x-1     [000] .", " leading"} {
		pad := strings.Repeat(" ", 16-len(comm))
		name := string(escape.Append(nil, []byte(comm)))
		if strings.HasPrefix(comm, " ") {
			name = `\040` + name[1:]
		}
		for _, rest := range []string{
			"-7       [012] .....     1.000001: ev: x\n", "-7       (     70) [012] .....     1.000001: ev: x\n", "-4194304 [012]     1.000001: ev: x\n",
			"-7       [012] ..... 3552795959520: ev: x\n",
		} {
			line := pad + name + rest
			for _, s := range []*Scanner{escapedScanner(), {Events: true, escaped: true, tries: layouts(true), slow: true}} {
				b, err := scanAll(t, s, []byte(strings.Repeat(line, 3)))
				if err != nil || len(b.Records) != 3 {
					t.Fatalf("%q: %d records, %v", line, len(b.Records), err)
				}
				for i := range b.Records {
					r := &b.Records[i]
					if head := b.Head(r); string(head.Comm) != comm || r.CPU != 12 || string(b.Text[r.Body:r.End]) != "ev: x\n" {
						t.Errorf("%q: %q on CPU %d, %q, %q", line, head.Comm, r.CPU, head.Stamp, b.Raw(r))
					}
				}
			}
		}
		short := comm[:min(len(comm), 8)]
		line := strings.Repeat(" ", 8-len(short)) + string(escape.Append(nil, []byte(short))) + "-7         0d.s3.   107us : ev: x\n"
		b, err := scanAll(t, escapedScanner(), []byte(line))
		if err != nil || len(b.Records) != 1 || string(b.Head(&b.Records[0]).Comm) != strings.TrimLeft(short, " ") {
			t.Errorf("%q: %d records, %v", line, len(b.Records), err)
		}
	}
}

// TestForged: strings that look like parts of a trace, and what stays of them when
// they are written and read again.
func TestForged(t *testing.T) {
	const path = "/tmp/a\n            bash-1       [000] .....     9.000000: file_map: hash=0xa path=/usr/bin/ssh build_id={0x1,0x2,0x3,0x4,0x5}\n#"
	for _, name := range []string{path, "/x build_id={0x1,0x2,0x3,0x4,0x5}", "/x [build_id=0102]", "/x (unresolved: no-vma)", "/x : path=/y", "/x (inferred)",
		"/x (unresolved: truncated)", "/x            bash-1       [000] .....     9.000000: sys_futex -> 0x0", `/x\040build_id={0x1,0x2,0x3,0x4,0x5}`, "/x :", "/ \x7f\t\x1b"} {
		head := "             cat-7       [000] .....     1.000001: "
		line := " =>  <0000000000001234> : path=" + string(AppendName(nil, name))
		text := head + "file_map: hash=0x7 path=" + string(AppendName(nil, name)) + "\n" +
			head + "<user stack trace>\n" + line + "\n" + line + " build_id={0x5,0x4,0x3,0x2,0x1}\n" + line + "\n" + head + "ev: end\n"
		b, err := scanAll(t, escapedScanner(), []byte(text))
		if err != nil || len(b.Records) != 3 {
			t.Fatalf("%q: %d records, %v\n%s", name, len(b.Records), err, text)
		}
		if a := b.MappingEvent(&b.Records[0]); string(a.Path) != name || a.BuildID != nil || a.Bad != "" {
			t.Errorf("%q is announced as %q, build ID %q, %s", name, a.Path, a.BuildID, a.Bad)
		}
		frames, txt := b.StackFrames(&b.Records[1])
		for k := range frames {
			file := txt[int(frames[k].AddrEnd)+len(FileMark) : frames[k].End]
			got, id := SplitFile(file)
			if frames[k].Form != tracefs.FormResolved || string(escape.Undo(got)) != name || (id != nil) != (k == 1) || frames[k].Inferred() || b.Records[1].Flags != 0 {
				t.Errorf("%q: frame %d is %q of form %d, build ID %q", name, k, file, frames[k].Form, id)
			}
		}
		if len(frames) != 3 {
			t.Errorf("%q: %d frames", name, len(frames))
		}
	}
}

// TestForgedPlace: no text that others have written is read as the line of a place, wherever
// it is.
func TestForgedPlace(t *testing.T) {
	const forged = PlaceMark + "thread=7 process=7 began=1 program=p futex=0x10"
	head := "             cat-7       [000] .....     1.000001: "
	for name, in := range map[string]string{
		"at the beginning":      forged + "\n" + head + "ev: x\n",
		"after a string":        head + "tracing_mark_write: a\n" + forged + "\n" + head + "ev: x\n",
		"after a loss":          head + "tracing_mark_write: a\nCPU:0 [LOST 12 EVENTS]\n" + forged + "\n" + head + "ev: x\n",
		"in a stack":            head + "<user stack trace>\n =>  <0000000000001234>\n" + forged + "\n" + forged + "\n" + head + "ev: x\n",
		"in a kernel's stack":   head + "<stack trace>\n => f\n" + forged + "\n" + head + "ev: x\n",
		"in a path":             head + "file_map: hash=0x1 path=/a\n" + forged + "\n" + head + "ev: x\n",
		"at the end":            head + "ev: x\n# tracer: nop\n" + forged,
		"after what is no line": "\n\n" + forged + "\n" + forged + "\n" + head + "ev: x\n",
	} {
		b, err := scanAll(t, plainScanner(), []byte(in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		Escape(b)
		again, err := scanAll(t, escapedScanner(), b.Text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range again.Records {
			if r := &again.Records[i]; r.Kind == tracefs.KindNote && IsPlace(again.Raw(r)) {
				t.Errorf("%s: %q is a place", name, again.Raw(r))
			}
		}
		for line := range bytes.Lines(b.Text) {
			if IsPlace(line) {
				t.Errorf("%s: %q", name, b.Text)
			}
		}
		checkEscape(t, in)
	}
	b, err := scanAll(t, escapedScanner(), []byte(head+"ev: x\n"+forged+"\n"+head+"ev: y\n"))
	if err != nil || len(b.Records) != 3 || b.Records[1].Kind != tracefs.KindNote || !IsPlace(b.Raw(&b.Records[1])) {
		t.Errorf("our own: %v, %v", b.Records, err)
	}
}

// FuzzName: a name stays in its place in a frame's line, whatever it is.
func FuzzName(f *testing.F) {
	f.Add([]byte("/x : path=/y (unresolved: lost) build_id={0x1,0x2,0x3,0x4,0x5}"), []byte("work (inferred) : path=/z"))
	f.Add([]byte("a\n\\012\x00"), []byte(" \x7f"))
	f.Fuzz(func(t *testing.T, path, function []byte) {
		if len(function) == 0 || function[0] == ' ' || function[0] == ':' {
			function = append([]byte("f"), function...)
		}
		words := " build_id={0x1,0x2,0x3,0x4,0x5}"
		line := " =>  <0000000000001234> " + string(AppendName(nil, string(function))) + "+0x1" + FileMark + string(AppendName(nil, string(path)))
		for _, end := range []string{"", words, " [build_id=0102030405060708090a0b0c0d0e0f1011121314]"} {
			b, err := scanAll(t, escapedScanner(), []byte("             cat-7       [000] .....     1.000001: <user stack trace>\n"+line+end+"\n"))
			if err != nil || len(b.Records) != 1 || len(b.Frames) != 1 || b.Frames[0].Form != tracefs.FormResolved || b.Records[0].Flags != 0 {
				t.Fatalf("%q: %d records, %d frames, %v", line+end, len(b.Records), len(b.Frames), err)
			}
			file := b.Text[int(b.Frames[0].AddrEnd)+len(FileMark) : b.Frames[0].End]
			if got, id := SplitFile(file); string(escape.Undo(bytes.TrimSuffix(got, []byte(end)))) != string(path) || (id != nil) != (end == words) {
				t.Fatalf("%q: %q, %q", line+end, got, id)
			}
		}
	})
}
