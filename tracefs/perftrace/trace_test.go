package perftrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/tracefs"
	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/format"
	"ustack/tracefs/perf"
)

// wakeFormat is a tracepoint.
const wakeFormat = `name: wake
ID: 7
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:u64 who;	offset:8;	size:8;	signed:0;

print fmt: "who=%llu", REC->who
`

// fake is a Sampler with what the test has put there, in order of time.
type fake struct {
	now        tracefs.Time
	items      []any // *perf.StackSample or perf.Loss
	unreported []perf.Loss
	counts     perf.SampleCounts
	closed     int
}

func (f *fake) ReadSome(until tracefs.Time, take func(*perf.StackSample) bool, lost func(perf.Loss)) bool {
	for len(f.items) > 0 {
		switch x := f.items[0].(type) {
		case *perf.StackSample:
			if x.Time > until {
				return false
			}
			f.items = f.items[1:]
			if !take(x) {
				return true
			}
		case perf.Loss:
			f.items = f.items[1:]
			lost(x)
		}
	}
	return false
}

func (f *fake) Unreported(lost func(perf.Loss)) {
	for _, l := range f.unreported {
		lost(l)
	}
	f.unreported = nil
}

func (f *fake) Now() tracefs.Time         { return f.now }
func (f *fake) RingSize() int             { return 32 << 10 }
func (f *fake) Counts() perf.SampleCounts { return f.counts }
func (f *fake) Close() error              { f.closed++; return nil }

// raw returns the record of a wake by a thread.
func raw(tid int, who uint64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, 7)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(tid))
	return append(binary.LittleEndian.AppendUint64(b, who), 0, 0, 0, 0) // and padding
}

// called are names of threads.
type called map[int32]string

func (c called) Comm(tid int32, at uint64) (string, uint64, bool) {
	name, ok := c[tid]
	return name, ^uint64(0), ok
}

func open(t *testing.T, in Sampler, opt Options) *Trace {
	t.Helper()
	e, err := format.Parse([]byte(wakeFormat))
	if err != nil {
		t.Fatal(err)
	}
	e.System = "test"
	k := &tracebinary.Kernel{Events: []*format.Event{e}, Clock: "mono", Names: called{5: "five", 6: "six"}}
	k.Layout.Page = *format.DefaultPage()
	opt.Options = tracebinary.Options{Events: true, NoTemplates: true}
	return New(k, in, opt)
}

// all reads a trace to its end.
func all(t *testing.T, trace *Trace) string {
	t.Helper()
	var text strings.Builder
	for {
		var b tracefs.Batch
		err := trace.Next(&b)
		text.Write(b.Text)
		if err == io.EOF {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTrace: events, stacks, requests and losses are what ftrace would say, each in its place.
func TestTrace(t *testing.T) {
	in := &fake{now: 100, unreported: []perf.Loss{{CPU: 1, Records: 9}}, items: []any{
		&perf.StackSample{TID: 5, PID: 5, CPU: 0, Time: 1000, Raw: raw(5, 1), Chain: []uint64{0x401000, 0x402000, 0, 0x403000}},
		perf.Loss{CPU: 1, Records: 4},
		&perf.StackSample{TID: 6, PID: 5, CPU: 1, Time: 2000, Raw: raw(6, 2), Deferred: true, Cookie: 0x300000002},
		&perf.StackSample{TID: 6, PID: 5, CPU: 1, Time: 3000, Late: true, Cookie: 0x300000002, Chain: []uint64{0x401000}},
		&perf.StackSample{TID: 9, PID: 9, CPU: 1, Time: 4000, Raw: raw(9, 3)},
		perf.Loss{CPU: 0},
		&perf.StackSample{TID: 5, PID: 5, CPU: 0, Time: 5000, Raw: raw(5, 4)},
		&perf.StackSample{TID: 5, PID: 5, CPU: 0, Time: 6000},
	}}
	trace := open(t, in, Options{Leave: func(pid int) bool { return pid == 9 }})
	in.now = 10_000
	trace.End()
	got := all(t, trace)
	want := `            five-5       [000] .....     0.000001: wake: who=1
            five-5       [000] .....     0.000001: <user stack trace>
 =>  <0000000000401000>
 =>  <0000000000402000>
CPU:1 [LOST 4 EVENTS]
             six-6       [001] .....     0.000002: wake: who=2
             six-6       [001] .....     0.000002: cookie=300000002
             six-6       [001] .....     0.000003: <user stack unwind>
cookie=300000002
 =>  <0000000000401000>
CPU:0 [LOST EVENTS]
            five-5       [000] .....     0.000005: wake: who=4
CPU:1 [LOST 9 EVENTS]
`
	if got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
	if notes := strings.Join(trace.Notes(), "\n"); !strings.Contains(notes, "1 samples have no whole record") {
		t.Errorf("notes %q", notes)
	}
	if err := errors.Join(trace.Close(), trace.Close()); err != nil || in.closed != 1 {
		t.Errorf("%v: closed %d times", err, in.closed)
	}
	if err := trace.Next(new(tracefs.Batch)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestMoment: what is younger than a moment waits, and batches are bounded.
func TestMoment(t *testing.T) {
	const n = 20_000
	in := &fake{now: n + moment/2}
	for i := range n {
		in.items = append(in.items, &perf.StackSample{TID: 5, PID: 5, Time: tracefs.Time(i), Raw: raw(5, uint64(i)), Chain: []uint64{1 << 20}})
	}
	trace := open(t, in, Options{Pause: time.Nanosecond})
	var b tracefs.Batch
	if err := trace.Next(&b); err != nil || !b.Empty() || !b.Paused {
		t.Fatalf("%v: %d lines, paused: %v", err, b.Lines, b.Paused)
	}
	in.now = n + 2*moment
	for i := 0; i < n; {
		if err := trace.Next(&b); err != nil || len(b.Text) > 200<<10 || b.Empty() {
			t.Fatalf("after %d: %v, %d bytes", i, err, len(b.Text))
		}
		for line := range bytes.Lines(b.Text) {
			if _, who, ok := bytes.Cut(line, []byte("who=")); ok {
				if string(who) != fmt.Sprintln(i) {
					t.Fatalf("%s comes as number %d", who, i)
				}
				i++
			}
		}
	}
	trace.Wake()
	if err := trace.Next(&b); err != nil || !b.Empty() || !b.Paused {
		t.Errorf("%v: woken, it has %d lines", err, b.Lines)
	}
}

// TestTwice: of threads that are sampled by two events or three, each record is there once,
// whatever it says; records of one event all stay.
func TestTwice(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := twice{on: true}
		var want, got []perf.StackSample
		now := tracefs.Time(0)
		for range 500 {
			now += tracefs.Time(1000 + rnd.IntN(3000))
			tid := rnd.IntN(3)
			s := perf.StackSample{TID: tid, CPU: rnd.IntN(2), Time: now, Tracepoint: uint64(rnd.IntN(2)), Raw: raw(tid, uint64(rnd.IntN(2)))}
			if rnd.IntN(5) == 0 {
				s = perf.StackSample{TID: tid, Time: now, Late: true, Cookie: uint64(now)}
			}
			want = append(want, s)
			for i := range 1 + tid { // as many events have the thread
				x := s
				x.Root, x.Time = uint64(10*tid+i), now+tracefs.Time(i)
				if !d.again(&x) {
					x.Root, x.Time = 0, now
					got = append(got, x)
				}
			}
		}
		if !slices.EqualFunc(want, got, func(a, b perf.StackSample) bool {
			return a.TID == b.TID && a.Time == b.Time && a.Late == b.Late && bytes.Equal(a.Raw, b.Raw)
		}) {
			t.Fatalf("seed %d: %d records of %d", seed, len(got), len(want))
		}
	}
}
