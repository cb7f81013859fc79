package perfetto

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/perfetto/perfettotest"
	"ustack/render/profile"
	"ustack/tracefs"
)

// written is the trace that write makes, as it is read.
func written(t *testing.T, opt Options, write func(*Writer)) *perfettotest.Trace {
	t.Helper()
	var out, again bytes.Buffer
	for _, b := range []*bytes.Buffer{&out, &again} {
		w := NewWriter(b, opt)
		write(w)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same calls make other bytes")
	}
	trace, err := perfettotest.Read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func file(path string, id byte) *filemap.File {
	return &filemap.File{Path: path, BuildID: filemap.BuildID{id}}
}

// TestWriter: what is written is what is read.
func TestWriter(t *testing.T) {
	app, libc := file("/opt/app", 1), file("/lib/libc.so.6", 0)
	between := &symbol.Skipped{File: app, Offset: 0x1000, Name: &symbol.Name{Function: "between", Inferred: true}}
	work := &symbol.Name{Function: "work", File: "work.c", Line: 40, Inlined: []symbol.Call{{Function: "leaf", File: "leaf.h", Line: 7}}}
	functions := []symbol.Function{{Name: &symbol.Name{Reason: symbol.Stripped}, Skipped: between}, {Name: work}, {}}
	stack := []profile.Frame{{File: libc, Offset: 0x10}, {File: app, Offset: 0x1234}, {Memory: "[heap]"}}
	trace := written(t, Options{Clock: "mono"}, func(w *Writer) {
		waker := w.Thread(Thread{PID: 7, TID: 7, Comm: "app"}, 50)
		waiter := w.Thread(Thread{PID: 7, TID: 8, Comm: "app-w"}, 10)
		w.Event(&Event{Type: Begin, Time: 10, Track: waiter, Category: "wait", Name: "mutex", Stack: stack, Functions: functions, Cut: true,
			Notes: []Note{{"lock", Address(0xffff0000)}, {"kind", "mutex"}, {"sure", true}, {"n", int64(-1)}}})
		w.Event(&Event{Type: Instant, Time: 50, Track: waker, Category: "wake", Name: "wakes", Flow: 1, Stack: stack[:1]})
		w.Event(&Event{Type: End, Time: 60, Track: waiter, FlowEnd: 1, Notes: []Note{{"result", "woken"}}})
		w.Event(&Event{Type: Begin, Time: 60, Track: w.Thread(Thread{PID: tracefs.NoTID, TID: 9, Comm: "<...>"}, 60), Category: "wait", Name: "mutex"})
		w.Gap(1, 3, 20, 30, 12)
	})
	if trace.Clock != 3 || trace.Generations != 1 {
		t.Errorf("clock %d, %d generations", trace.Clock, trace.Generations)
	}
	id := "01" + strings.Repeat("00", filemap.BuildIDSize-1)
	inner := perfettotest.Frame{Function: "libc.so.6+0x10", Path: "/lib/libc.so.6", RelPC: 0x10, Mapped: true}
	wait := []perfettotest.Frame{inner,
		{Function: "between (inferred)", Path: "/opt/app", BuildID: id, RelPC: 0x1000, Mapped: true},
		{Function: "leaf", Path: "/opt/app", BuildID: id, Source: "leaf.h", Line: 7, RelPC: 0x1233, Mapped: true},
		{Function: "work", Path: "/opt/app", BuildID: id, Source: "work.c", Line: 40, RelPC: 0x1233, Mapped: true},
		{Function: "[heap]"}, {Function: "[truncated]"}}
	want := []perfettotest.Slice{
		{Begin: 10, End: 60, Name: "mutex", Category: "wait", Stack: wait, FlowEnd: []uint64{1},
			Notes: map[string]any{"lock": uint64(0xffff0000), "kind": "mutex", "sure": true, "n": int64(-1), "result": "woken"}},
		{Begin: 20, End: 30, Name: "lost events", Category: "lost", Notes: map[string]any{"records": int64(12)}},
		{Begin: 50, End: 50, Instant: true, Name: "wakes", Category: "wake", Flow: []uint64{1}, Stack: []perfettotest.Frame{inner}, Notes: map[string]any{}},
		{Begin: 60, Name: "mutex", Category: "wait", Notes: map[string]any{}},
	}
	tracks := []perfettotest.Track{{PID: 7, TID: 8, Name: "app-w"}, {Name: "CPU 3 of buffer 1"}, {PID: 7, TID: 7, Name: "app"}, {Name: "thread 9"}}
	for i, s := range trace.Slices {
		got := *s
		got.Track = nil
		if i >= len(want) || !reflect.DeepEqual(got, want[i]) {
			t.Errorf("slice %d is\n%+v", i, got)
			continue
		}
		if track := s.Track; track.PID != tracks[i].PID || track.TID != tracks[i].TID || track.Name != tracks[i].Name {
			t.Errorf("slice %d is on %+v", i, track)
		}
	}
	if len(trace.Slices) != len(want) {
		t.Errorf("%d slices", len(trace.Slices))
	}
}

// TestProcessAsked: a thread's process is looked up if the trace does not have it.
func TestProcessAsked(t *testing.T) {
	process := func(tid int32) (int32, bool) { return 5, tid == 7 }
	trace := written(t, Options{Process: process}, func(w *Writer) {
		for _, thread := range []Thread{{PID: tracefs.NoTID, TID: 7, Comm: "a"}, {PID: 6, TID: 7, Comm: "b"}, {PID: tracefs.NoTID, TID: 8, Comm: "c"}} {
			w.Event(&Event{Type: Instant, Track: w.Thread(thread, 1), Category: "c", Name: "n"})
		}
	})
	var got []string
	for _, s := range trace.Slices {
		got = append(got, fmt.Sprint(s.Track.PID, s.Track.TID, s.Track.Name))
	}
	if want := []string{"5 7a", "6 7b", "0 0c 8"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHostile: any text is valid, any number fits.
func TestHostile(t *testing.T) {
	evil := "a\xff\x00\x1b[31m" + strings.Repeat("€", 5000)
	evilFile := file("/\xfe"+evil, 1)
	trace := written(t, Options{Clock: "no such clock"}, func(w *Writer) {
		for _, id := range []int32{math.MinInt32, -1, 0, 1, math.MaxInt32} {
			for _, at := range []tracefs.Time{math.MinInt64, -1, 0, math.MaxInt64} {
				track := w.Thread(Thread{PID: id, TID: id, Comm: evil}, at)
				w.Event(&Event{Type: Instant, Time: at, Track: track, Category: evil, Name: evil, Notes: []Note{{evil, evil}},
					Stack: []profile.Frame{{File: evilFile, Offset: math.MaxUint64}, {File: evilFile}, {Memory: evil}}})
				w.Gap(255, id, at, -at, math.MaxUint64)
			}
		}
	})
	for _, s := range trace.Slices {
		if s.Category == "lost" {
			continue
		}
		if !strings.HasPrefix(s.Name, "a\ufffd\x00\x1b[31m€") || len(s.Name) > 4200 || !strings.HasPrefix(s.Stack[0].Path, "/\ufffda") {
			t.Fatalf("a name is %.40q, its file %.40q", s.Name, s.Stack[0].Path)
		}
	}
	if trace.Clock != 0 || len(trace.Slices) != 40 {
		t.Errorf("clock %d, %d slices", trace.Clock, len(trace.Slices))
	}
}

// TestTracksApart: the same thread has the same track, others have others.
func TestTracksApart(t *testing.T) {
	w := NewWriter(&bytes.Buffer{}, Options{})
	seen := make(map[Track]string)
	for _, pid := range []int32{-1, 0, 1, 2, 1 << 24, math.MaxInt32} {
		for _, tid := range []int32{1, 2, 3, 1 << 24, math.MaxInt32} {
			name := fmt.Sprint(max(pid, 0), tid)
			for _, comm := range []string{"a", "b"} {
				track := w.Thread(Thread{PID: pid, TID: tid, Comm: comm}, 1)
				if other, ok := seen[track]; ok && other != name {
					t.Errorf("%s and %s have track %#x", name, other, track)
				}
				seen[track] = name
			}
		}
	}
	for buffer := range 3 {
		for _, cpu := range []int32{0, 1, 1 << 20} {
			track := w.Lost(buffer, cpu, 1)
			if seen[track] != "" {
				t.Errorf("%s has track %#x, too", seen[track], track)
			}
			seen[track] = fmt.Sprint("CPU", cpu, buffer)
		}
	}
	if want := 5*5 + 3*3; len(seen) != want {
		t.Errorf("%d tracks, want %d", len(seen), want)
	}
}

// TestGenerations: tables that are full begin anew, and so no trace takes more
// memory than another. Everything is resolved all the same.
func TestGenerations(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads 100,000 events: leave out -short")
	}
	const events = 3 * maxInterned / 4
	trace := written(t, Options{}, func(w *Writer) {
		for i := range events {
			at := tracefs.Time(i)
			track := w.Thread(Thread{PID: 1, TID: int32(i%(2*maxTracks)) + 1, Comm: "t"}, at)
			w.Event(&Event{Type: Instant, Time: at, Track: track, Category: "stack", Name: "event", Stack: []profile.Frame{{File: file("/opt/app", 1), Offset: uint64(i)}}})
			if n := w.tables.entries; n > maxInterned+10 {
				t.Fatalf("%d entries", n)
			}
			if n := len(w.tracks); n > maxTracks {
				t.Fatalf("%d tracks", n)
			}
		}
	})
	if trace.Generations < 2 || len(trace.Slices) != events {
		t.Errorf("%d generations, %d events", trace.Generations, len(trace.Slices))
	}
	for i, s := range trace.Slices {
		if s.Stack[0].RelPC != uint64(i) || s.Stack[0].Path != "/opt/app" {
			t.Fatalf("event %d has %+v", i, s.Stack)
		}
	}
}

// nothing is written to.
type nothing struct{}

func (nothing) Write(b []byte) (int, error) { return len(b), nil }

// TestMemory: names that never come twice do not add up.
func TestMemory(t *testing.T) {
	w := NewWriter(nothing{}, Options{})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	track := w.Thread(Thread{PID: 1, TID: 1, Comm: "t"}, 0)
	long := strings.Repeat("x", 2000)
	for i := range 50_000 { // 100 MB of names
		w.Event(&Event{Type: Instant, Track: track, Category: "stack", Name: fmt.Sprint(long, i)})
	}
	if after := heap(); after > before+64<<20 {
		t.Errorf("%d MB are kept", (after-before)>>20)
	}
	runtime.KeepAlive(w)
}

type full struct{}

var errFull = errors.New("no room left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestWriteError: an error is reported in the end.
func TestWriteError(t *testing.T) {
	w := NewWriter(full{}, Options{})
	for range 10_000 {
		w.Gap(0, 1, 2, 3, 4)
	}
	if err := w.Flush(); !errors.Is(err, errFull) || !errors.Is(w.Err(), errFull) {
		t.Errorf("the errors are %v and %v", err, w.Err())
	}
}

// TestReaderFinds: the reader of these tests is not content with everything.
func TestReaderFinds(t *testing.T) {
	var good bytes.Buffer
	w := NewWriter(&good, Options{})
	track := w.Thread(Thread{PID: 1, TID: 1, Comm: "t"}, 0)
	w.Event(&Event{Type: Begin, Time: 1, Track: track, Category: "c", Name: "n"})
	w.Event(&Event{Type: End, Time: 2, Track: track})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, add := range map[string]func(*Writer){
		"end":   func(w *Writer) { w.Event(&Event{Type: End, Time: 3, Track: track}) },
		"track": func(w *Writer) { w.Event(&Event{Type: End, Time: 3, Track: 12345}) },
		"flow": func(w *Writer) {
			w.Event(&Event{Type: Instant, Time: 3, Track: track, Category: "c", Name: "n", Flow: 3})
		},
		"nothing": func(w *Writer) { w.write(3, 900) },
		"table": func(w *Writer) {
			w.tables.texted[textKey{internedEventNames, "o"}] = 77
			w.Event(&Event{Type: Instant, Track: track, Category: "c", Name: "o"})
		},
	} {
		var bad bytes.Buffer
		w.out.Reset(&bad)
		add(w)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := perfettotest.Read(slices.Concat(good.Bytes(), bad.Bytes())); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := perfettotest.Read(good.Bytes()[:good.Len()-1]); err == nil {
		t.Error("a packet is cut without an error")
	}
}
