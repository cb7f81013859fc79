package binary

import (
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/syscalls"
)

// said is what a record says, in whatever form it has that.
type said struct {
	kind     tracefs.Kind
	flags    tracefs.Flags
	tid, cpu int32
	value    uint64
	time     tracefs.Time
	comm     string
	columns  string
	tgid     int32
	addrs    []uint64
	call     syscalls.Event
	line     int64
}

func saidBy(t *testing.T, b *tracefs.Batch, r *tracefs.Record) said {
	t.Helper()
	out := said{kind: r.Kind, flags: r.Flags &^ (tracefs.NoText | tracefs.CanWait | tracefs.Returns), tid: r.TID, cpu: r.CPU, value: r.Value, time: b.Time(r), line: b.LineOf(r)}
	comm, tgid := b.Who(r)
	out.comm, out.tgid = string(comm), tgid
	head := b.Head(r)
	out.columns = string(head.Flags)
	if columns, ok := b.Context(r); ok && strings.TrimRight(string(columns[:]), "\x00") != out.columns {
		t.Errorf("the columns are %q, and %q in the text %q", columns, out.columns, b.Raw(r))
	}
	if r.Body > r.Off && b.Headed(r) {
		// The Origin says what the text says, but for the process of a stack.
		if string(head.Comm) != out.comm || r.Kind != tracefs.KindStack && head.TGID != out.tgid ||
			b.Heads[r.Source].Time(b.Text[r.Off:r.Body]) != out.time {
			t.Errorf("%+v of %q", out, b.Raw(r))
		}
	}
	switch {
	case r.Kind == tracefs.KindStack:
		frames, text := b.StackFrames(r)
		for k := range frames {
			out.addrs = append(out.addrs, frames[k].Address(text))
		}
	case b.Call(r) != nil:
		out.call = *b.Call(r)
	case r.Kind == tracefs.KindEvent:
		if e := (syscalls.Event{}); syscalls.Parse(b.Text[r.Body:r.End], &e) && e.Call != syscalls.Other {
			out.call = e
		}
	}
	return out
}

func allSaid(t *testing.T, s *Source) (out []said, without int) {
	t.Helper()
	var b tracefs.Batch
	for {
		err := s.Next(&b)
		for i := range b.Records {
			r := &b.Records[i]
			if r.Flags&tracefs.NoText != 0 {
				without++
				if len(b.Raw(r)) > 0 || r.Body != r.Off {
					t.Fatalf("a record without text has the text %q", b.Raw(r))
				}
			}
			out = append(out, saidBy(t, &b, r))
		}
		if err == io.EOF {
			return out, without
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoText: records without text say the same as with it, and count as many lines.
func TestNoText(t *testing.T) {
	capturetest.SkipShort(t)
	all := 0
	eachRaw(t, func(t *testing.T, _ string, dir *Dir) {
		want, none := allSaid(t, dir.Source(Options{Events: true, NoTemplates: true}, nil))
		if none != 0 {
			t.Fatalf("%d records without text that were not asked for", none)
		}
		for _, opt := range []Options{{Events: true, NoText: true}, {Events: true, NoText: true, NoTemplates: true}} {
			got, without := allSaid(t, dir.Source(opt, nil))
			all += without
			if len(got) != len(want) {
				t.Fatalf("%d records, %d with text", len(got), len(want))
			}
			for i := range want {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("record %d says\n%+v, with text\n%+v", i, got[i], want[i])
				}
			}
		}
	})
	if all < 10000 {
		t.Errorf("only %d records without text", all)
	}
}

// TestExact: the exact time of a record is what its time was rounded from.
func TestExact(t *testing.T) {
	dir, err := OpenDir(capturetest.Unpack(t, filepath.Join(captures, "stock/static_raw/raw.tar.zst")))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	finer := 0
	for s, err := dir.Source(Options{Events: true, NoText: true}, nil), error(nil); err == nil; {
		var b tracefs.Batch
		if err = s.Next(&b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		for i := range b.Records {
			r := &b.Records[i]
			exact, ok := b.Exact(r)
			if ok && tracefs.Time(microseconds(uint64(exact))*1000) != b.Time(r) {
				t.Fatalf("the time is %d, and exactly %d", b.Time(r), exact)
			}
			if ok && exact%1000 != 0 {
				finer++
			}
		}
	}
	if finer < 100 {
		t.Errorf("only %d exact times", finer)
	}
}

// TestNoTextMemory: a batch has no calls without a record, and not more frames than
// its text would have had.
func TestNoTextMemory(t *testing.T) {
	dir, err := OpenDir(capturetest.Unpack(t, filepath.Join(captures, "stock/static_raw/raw.tar.zst")))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	stacks := 0
	for s, err := dir.Source(Options{NoText: true}, nil), error(nil); err == nil; {
		var b tracefs.Batch
		if err = s.Next(&b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		stacks += len(b.Records)
		if len(b.Calls) > 0 || len(b.Origins) > len(b.Records) {
			t.Errorf("%d calls and %d origins of %d records", len(b.Calls), len(b.Origins), len(b.Records))
		}
	}
	if stacks == 0 {
		t.Error("no stacks")
	}
	if b := (tracefs.Batch{Frames: make([]tracefs.Frame, batchSize/20)}); !full(&b, batchSize) {
		t.Errorf("a batch with %d frames is not full", len(b.Frames))
	}
}
