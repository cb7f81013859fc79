package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/render/perfetto/perfettotest"
	"ustack/tracefs/capturetest"
)

// perfettoRun is the trace that a command writes.
func perfettoRun(t *testing.T, args ...string) *perfettotest.Trace {
	t.Helper()
	trace, err := perfettotest.Read([]byte(profileRun(t, args...)))
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return trace
}

// perfettoStack is a stack as the JSON lines have it, innermost frame first.
func perfettoStack(s *perfettotest.Slice) string {
	var b strings.Builder
	for i, f := range s.Stack {
		b.WriteByte('\n')
		if !f.Mapped {
			b.WriteString(f.Function)
			continue
		}
		offset := f.RelPC
		if i > 0 {
			offset++ // it is in the call
		}
		fmt.Fprintf(&b, "%s %s %#x", f.Path, f.BuildID, offset)
	}
	return b.String()
}

// TestPerfettoCaptures: the trace of each capture has the very events of the JSON
// lines that have a stack, or say why not, each at its time, and what was lost.
func TestPerfettoCaptures(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			want, lost := perfettoJSON(t, c.args)
			got := make(map[string]int)
			for _, s := range perfettoRun(t, append([]string{"replay", "-q", "--format=perfetto"}, c.args...)...).Slices {
				if s.Category == "lost" {
					n, _ := s.Notes["records"].(int64)
					lost -= n
					continue
				}
				comm, tid := s.Track.Name, s.Track.TID
				if at := strings.LastIndexByte(comm, ' '); tid == 0 { // of an unknown process
					if _, err := fmt.Sscan(comm[at:], &tid); err != nil {
						t.Fatal(err)
					}
					comm = comm[:at]
				}
				if other, ok := s.Notes["comm"]; ok {
					comm = other.(string)
				}
				missing, _ := s.Notes["no_stack"].(string)
				got[fmt.Sprintf("%d %s %s %d %s%s", s.Begin, s.Name, comm, tid, missing, perfettoStack(s))]++
			}
			if !maps.Equal(got, want) {
				for key, n := range want {
					if got[key] != n {
						t.Fatalf("%d events of\n%s\nwant %d", got[key], key, n)
					}
				}
				t.Errorf("%d different events, want %d", len(got), len(want))
			}
			if lost != 0 {
				t.Errorf("%d more records are lost than the trace says", lost)
			}
		})
	}
}

// perfettoJSON counts the events of the JSON lines, and the records lost.
func perfettoJSON(t *testing.T, args []string) (events map[string]int, lost int64) {
	t.Helper()
	events = make(map[string]int)
	for line := range strings.Lines(profileRun(t, append([]string{"replay", "-q", "--format=json"}, args...)...)) {
		var r struct {
			Type, TS, Comm, Name string
			PID                  int
			Cut                  bool   `json:"stack_truncated"`
			End                  string `json:"stack_end"`
			Continued            bool
			Missing              string `json:"no_stack"`
			Count                int64
			CPU                  *int
			Stack                []struct {
				Path, Offset, Reason, Memory string
				BuildID                      string `json:"build_id"`
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Type == "lost" && r.CPU != nil {
			lost += r.Count
		}
		if r.Stack == nil && r.Missing == "" || r.Type == "file_map" || r.Continued {
			continue
		}
		var stack strings.Builder
		for i, f := range r.Stack {
			switch {
			case f.Path != "":
				if i > 0 && f.Offset == "0x0" {
					f.Offset = "0x1" // there is no call before it
				}
				fmt.Fprintf(&stack, "\n%s %s %s", f.Path, f.BuildID, f.Offset)
			case f.Memory != "":
				stack.WriteString("\n" + f.Memory)
			default:
				stack.WriteString("\n[" + f.Reason + "]")
			}
		}
		if n := len(r.Stack); endsEarly(r.Cut, r.End) && n > 0 && r.Stack[n-1].Reason != "truncated" {
			stack.WriteString("\n[truncated]")
		} else if n == 0 && r.Missing == "" {
			r.Missing = "no frames"
		}
		if r.Type == "stack" {
			r.Name = "stack"
		}
		events[fmt.Sprintf("%d %s %s %d %s%s", perfettoTime(t, r.TS), cmp.Or(r.Name, "event"), r.Comm, r.PID, r.Missing, stack.String())]++
	}
	return events, lost
}

// perfettoTime is the time of a stamp, in nanoseconds, or in whatever the clock
// counts.
func perfettoTime(t *testing.T, stamp string) (n uint64) {
	t.Helper()
	seconds, fraction, ok := strings.Cut(stamp, ".")
	if !ok {
		fraction = ""
	} else {
		fraction += strings.Repeat("0", len("000000000")-len(fraction))
	}
	if _, err := fmt.Sscan(strings.TrimLeft(seconds+fraction, "0"), &n); err != nil && strings.Trim(seconds+fraction, "0") != "" {
		t.Fatal(err)
	}
	return n
}

// TestPerfettoClock: times are of the clock that the trace says it has, and of the
// trace's own if it says none.
func TestPerfettoClock(t *testing.T) {
	raw := capturetest.Unpack(t, "../../testdata/captures/hash/tgid_raw/raw.tar.zst")
	for _, c := range []struct {
		clock string
		id    uint64
	}{{"local [mono] boot", 3}, {"[boot] mono", 6}, {"[mono_raw]", 5}, {"[local] mono", 0}, {"[x86-tsc]", 0}} {
		if err := os.WriteFile(filepath.Join(raw, "meta", "trace_clock"), []byte(c.clock), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"replay", "futex"} {
			if trace := perfettoRun(t, command, "-q", "--format=perfetto", raw); trace.Clock != c.id || len(trace.Slices) == 0 {
				t.Errorf("%s of %q: clock %d, %d slices, want clock %d", command, c.clock, trace.Clock, len(trace.Slices), c.id)
			}
		}
	}
	if trace := perfettoRun(t, "replay", "-q", "--format=perfetto", "../../testdata/captures/hash/mono/trace.txt.zst"); trace.Clock != 0 {
		t.Errorf("text has clock %d", trace.Clock)
	}
}

// TestPerfettoProcess: with --maps, threads have their process.
func TestPerfettoProcess(t *testing.T) {
	const dir = "../../testdata/captures/hash/pipe_default/"
	count := func(args ...string) (known, unknown int) {
		for _, s := range perfettoRun(t, append(append([]string{"replay", "-q", "--format=perfetto"}, args...), dir+"trace.txt.zst")...).Slices {
			switch {
			case s.Track.PID > 0:
				known++
			case s.Category == "stack":
				unknown++
			}
		}
		return known, unknown
	}
	if known, unknown := count(); known > 0 || unknown == 0 {
		t.Errorf("%d stacks are of known processes, %d of others", known, unknown)
	}
	if known, unknown := count("--maps", dir+"maps.tar.zst"); known < 10*unknown {
		t.Errorf("with --maps, %d stacks are of known processes, %d of others", known, unknown)
	}
}

// FuzzPerfetto: whatever the trace, what comes out can be read: all that is named
// is there, all that ends has begun.
func FuzzPerfetto(f *testing.F) {
	f.Add([]byte(`            t10-10      (     10) [000] .....     1.000001: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
            t10-10      (     10) [000] .....     1.000002: <user stack trace>
 =>  <00007f0000001021> 
CPU:0 [LOST 3 EVENTS]
            t11-11      (     10) [001] .....     1.000003: sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
            t11-11      (     10) [001] .....     1.000004: sys_futex -> 0x1
            t10-10      (     10) [000] .....     0.900005: sys_futex -> 0x0
`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, command := range []string{"replay", "futex"} {
			var out, stderr bytes.Buffer
			_ = run([]string{command, "-q", "--format=perfetto"}, bytes.NewReader(data), &out, &stderr)
			if _, err := perfettotest.Read(out.Bytes()); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	})
}
