package binary

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

const captures = "../../testdata/captures"

// rawCaptures are the captures that have the ring buffer's pages and the text
// of the same run.
func rawCaptures(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(captures + "/*/*/raw.tar.zst")
	if err != nil || len(names) < 17 {
		t.Fatalf("%d captures with raw pages: %v", len(names), err)
	}
	for i := range names {
		names[i] = filepath.Dir(names[i])
	}
	return names
}

// eachRaw calls fn with each of them, or with every third, open, in a test of its own.
func eachRaw(t *testing.T, fn func(t *testing.T, capture string, dir *Dir)) {
	t.Helper()
	for i, capture := range rawCaptures(t) {
		if capturetest.Brief() && i%3 != 0 {
			continue
		}
		t.Run(strings.TrimPrefix(capture, captures+"/"), func(t *testing.T) {
			dir, err := OpenDir(capturetest.Unpack(t, filepath.Join(capture, "raw.tar.zst")))
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			fn(t, capture, dir)
		})
	}
}

// view is a record free of its batch.
type view struct {
	Kind           tracefs.Kind
	Flags          tracefs.Flags
	TID, CPU       int32
	Value          uint64
	Text, Body     string
	Comm, Columns  string
	TGID           int32
	Time           tracefs.Time
	Frames         []frameView
	Path, Build    string
	Identifier     tracefs.Identifier
	Bad            string
	BuildIDMissing bool
}

type frameView struct {
	Text string
	Form tracefs.Form
	ID   tracefs.Identifier
	Addr uint64
}

func viewsOf(b *tracefs.Batch) (out []view) {
	for i := range b.Records {
		r := &b.Records[i]
		v := view{Kind: r.Kind, Flags: r.Flags &^ (tracefs.CanWait | tracefs.Returns), TID: r.TID, CPU: r.CPU, Value: r.Value, Text: string(b.Raw(r))}
		if r.Body > r.Off {
			h := b.Head(r)
			v.Body, v.Comm, v.Columns, v.TGID, v.Time = string(b.Text[r.Body:r.End]), string(h.Comm), string(h.Flags), h.TGID, b.Time(r)
		}
		switch r.Kind {
		case tracefs.KindStack:
			frames, text := b.StackFrames(r)
			for k := range frames {
				f := &frames[k]
				v.Frames = append(v.Frames, frameView{string(text[f.Off:f.End]), f.Form, f.ID, f.Address(text)})
			}
		case tracefs.KindMappingEvent:
			a := b.MappingEvent(r)
			v.Path, v.Build, v.Identifier, v.Bad, v.BuildIDMissing = string(a.Path), string(a.BuildID), a.ID, a.Bad, a.BuildID == nil
		}
		out = append(out, v)
	}
	return out
}

// all is everything a source gives.
type all struct {
	text   []byte
	views  []view
	events int64
	err    error
}

func readAll(t testing.TB, s *Source) all {
	t.Helper()
	var out all
	var b tracefs.Batch
	for {
		out.err = s.Next(&b)
		if b.Pos != int64(len(text.Head)+len(out.text)) || b.Line != 1+int64(bytes.Count(out.text, []byte{'\n'})) || !b.Escaped {
			t.Fatalf("a batch at byte %d, line %d, after the head and %d bytes", b.Pos, b.Line, len(out.text))
		}
		out.text = append(out.text, b.Text...)
		out.views = append(out.views, viewsOf(&b)...)
		out.events += b.Events
		if out.err != nil {
			return out
		}
	}
}

// scanned is what the text of a capture gives when it is escaped, without the
// remarks that only the file "trace" has.
func scanned(t testing.TB, data []byte) (plain []byte, views []view, events int64, overwritten uint64) {
	t.Helper()
	b := tracefs.Batch{Text: bytes.Clone(data)}
	s := text.NewScanner()
	s.Events = true
	if used, err := s.Scan(&b, text.MoreNever); err != nil || used != len(data) {
		t.Fatalf("scanned %d of %d bytes: %v", used, len(data), err)
	}
	text.Escape(&b)
	for line := range bytes.Lines(b.Text) {
		if line[0] != '#' {
			plain = append(plain, line...)
		}
	}
	for _, v := range viewsOf(&b) {
		switch v.Kind {
		case tracefs.KindLost:
			overwritten += v.Value
		case tracefs.KindNote, tracefs.KindGap:
		default:
			views = append(views, v)
		}
	}
	return plain, views, b.Events, overwritten
}

// TestCaptures: pages give the bytes that the kernel printed of them, escaped, and
// the records that the parser of text makes of these.
func TestCaptures(t *testing.T) {
	eachRaw(t, func(t *testing.T, capture string, dir *Dir) {
		plain, want, events, overwritten := scanned(t, capturetest.Read(t, filepath.Join(capture, "trace.txt.zst")))
		ways := []Options{{Events: true}, {Events: true, NoTemplates: true}}
		if capturetest.Packagers() {
			ways = ways[:1]
		}
		for _, opt := range ways {
			got := readAll(t, dir.Source(opt, nil))
			if got.err != io.EOF {
				t.Fatal(got.err)
			}
			// What the pages know of loss the file "trace" has in its head.
			var lost uint64
			var records []view
			var clean []byte
			for _, v := range got.views {
				if v.Kind == tracefs.KindLost {
					lost += v.Value
					continue
				}
				records = append(records, v)
				clean = append(clean, v.Text...)
			}
			if lost != overwritten {
				t.Errorf("%d records lost, the text says %d", lost, overwritten)
			}
			if overwritten == 0 && !bytes.Equal(got.text, plain) || !bytes.Equal(clean, plain) {
				t.Errorf("%d bytes are not the %d of the text", len(clean), len(plain))
			}
			if got.events != events || len(records) != len(want) {
				t.Fatalf("%d records, %d events; the text has %d, %d", len(records), got.events, len(want), events)
			}
			for i := range want {
				if !reflect.DeepEqual(records[i], want[i]) {
					t.Fatalf("record %d is\n%.900s, the text has\n%.900s", i, fmt.Sprintf("%+v", records[i]), fmt.Sprintf("%+v", want[i]))
				}
			}
		}
	})
}

// TestGuess: the sub-buffers' size is found where header_page is that of
// another buffer.
func TestGuess(t *testing.T) {
	for capture, size := range map[string]string{"inode/subbuf_raw": "4080", "hash/tgid_raw": "65520"} {
		capture = captures + "/" + capture
		path := capturetest.Unpack(t, filepath.Join(capture, "raw.tar.zst"))
		name := filepath.Join(path, "meta", "events", "header_page")
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(page, []byte("char data"))
		other := append(page[:at:at], "char data;\toffset:16;\tsize:"+size+";\tsigned:0;\n"...)
		if err := os.WriteFile(name, other, 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := OpenDir(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		plain, _, _, _ := scanned(t, capturetest.Read(t, filepath.Join(capture, "trace.txt.zst")))
		if got := readAll(t, dir.Source(Options{}, nil)); got.err != io.EOF || !bytes.Equal(got.text, plain) {
			t.Errorf("%s with pages of %s: %d bytes of %d, error %v", capture, size, len(got.text), len(plain), got.err)
		}
	}
}

// TestWithoutEvents: who does not ask for events gets the same text, and the
// other records.
func TestWithoutEvents(t *testing.T) {
	dir, err := OpenDir(capturetest.Unpack(t, captures+"/hash/edge2_raw/raw.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	with := readAll(t, dir.Source(Options{Events: true}, nil))
	without := readAll(t, dir.Source(Options{}, nil))
	var want []view
	for _, v := range with.views {
		if v.Kind != tracefs.KindEvent {
			want = append(want, v)
		}
	}
	if !bytes.Equal(with.text, without.text) || with.events != without.events || !reflect.DeepEqual(without.views, want) {
		t.Errorf("%d bytes, %d records, %d events; want %d, %d, %d", len(without.text), len(without.views), without.events,
			len(with.text), len(want), with.events)
	}
}

// TestBroken: a malformed page costs its own rest and nothing else, and is reported
// with its place.
func TestBroken(t *testing.T) {
	capture := captures + "/hash/tgid_raw"
	for _, x := range [...]struct {
		name  string
		spoil func(data []byte) []byte
		want  string
		lost  bool
	}{
		{"a record that is too long", func(b []byte) []byte {
			b[4096+16], b[4096+17] = 0, 0
			copy(b[4096+20:], "\xff\xff\xff\x7f")
			return b
		}, "reading sub-buffer 1 of CPU 2, byte 20: a record of 2147483647 bytes", true},
		{"a commit that is too large", func(b []byte) []byte {
			b[8], b[9], b[10] = 0xff, 0xff, 0xff
			return b
		}, "reading sub-buffer 0 of CPU 2, byte 8: ", true},
		{"cut off", func(b []byte) []byte { return b[:len(b)-4000] }, "it ends after 96 of 4096 bytes", true},
		{"empty", func(b []byte) []byte { return nil }, "", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			path := capturetest.Unpack(t, filepath.Join(capture, "raw.tar.zst"))
			name := filepath.Join(path, "raw2.bin")
			data, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name, x.spoil(data), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			dir, err := OpenDir(path)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			got := readAll(t, dir.Source(Options{Events: true}, nil))
			if got.err == nil || x.want != "" && !strings.Contains(got.err.Error(), x.want) || x.want == "" && got.err != io.EOF {
				t.Errorf("error %v", got.err)
			}
			perCPU := make(map[int32]int)
			lost := false
			for _, v := range got.views {
				perCPU[v.CPU]++
				lost = lost || v.Kind == tracefs.KindLost && v.CPU == 2 && v.Value == 0
			}
			if len(perCPU) < 3 || lost != x.lost || x.lost && perCPU[2] < 50 && x.name != "cut off" {
				t.Errorf("records by CPU %v, loss reported %v", perCPU, lost)
			}
		})
	}
}

// TestOpenDirRefuses: what is missing is named.
func TestOpenDirRefuses(t *testing.T) {
	if IsDir(t.TempDir()) {
		t.Error("an empty directory is taken for one with pages")
	}
	path := capturetest.Unpack(t, captures+"/hash/tgid_raw/raw.tar.zst")
	if !IsDir(path) {
		t.Error("a directory with pages is not taken for one")
	}
	if err := os.RemoveAll(filepath.Join(path, "meta", "events")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(path); err == nil || !strings.Contains(err.Error(), "no event formats") {
		t.Errorf("without formats: %v", err)
	}
}

func BenchmarkSource(b *testing.B) {
	path := capturetest.Unpack(b, captures+"/hash/static_raw/raw.tar.zst")
	dir, err := OpenDir(path)
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	for name, opt := range map[string]Options{"counting": {}, "events": {Events: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				var batch tracefs.Batch
				s := dir.Source(opt, nil)
				for err := error(nil); err == nil; {
					err = s.Next(&batch)
				}
				records += 17518
			}
			b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
