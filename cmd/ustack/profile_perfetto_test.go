package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"ustack/render/perfetto/perfettotest"
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
				t.Errorf("%d more records are lost than the trace tells", lost)
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
			Cut                  bool `json:"stack_truncated"`
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
		if n := len(r.Stack); r.Cut && n > 0 && r.Stack[n-1].Reason != "truncated" {
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
