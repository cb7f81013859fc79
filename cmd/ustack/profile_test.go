package main

// Tests of the formats that sum stacks up, on the captures and with the
// programs that read them.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/escape"
)

// profileRun is what a command prints.
func profileRun(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// profileStacks counts by thread's name the stacks that are in the JSON lines,
// those of mapping events left out, and sums up their frames.
func profileStacks(t *testing.T, args []string) (stacks map[string]int64, frames int64) {
	t.Helper()
	stacks = make(map[string]int64)
	for line := range strings.Lines(profileRun(t, append([]string{"replay", "-q", "--format=json"}, args...)...)) {
		var record struct {
			Type, Comm string
			Continued  bool
			Cut        bool   `json:"stack_truncated"`
			End        string `json:"stack_end"`
			Stack      []struct{ Reason string }
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Stack != nil && record.Type != "file_map" && !record.Continued {
			stacks[record.Comm]++
			frames += int64(max(len(record.Stack), 1)) // "[no frames]"
			if n := len(record.Stack); endsEarly(record.Cut, record.End) && (n == 0 || record.Stack[n-1].Reason != "truncated") {
				frames++ // "[truncated]"
			}
		}
	}
	return stacks, frames
}

// endsEarly reports whether JSON says that the outermost frames of a stack are missing.
func endsEarly(cut bool, end string) bool { return cut || end != "" && end != "root" }

// TestFoldedCaptures: the folded lines of each capture have all stacks that the
// JSON lines have, and no frame is missing.
func TestFoldedCaptures(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	seen := false
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			want, wantFrames := profileStacks(t, c.args)
			got, frames := make(map[string]int64), int64(0)
			last := ""
			for line := range strings.Lines(profileRun(t, append([]string{"replay", "-q", "--format=folded"}, c.args...)...)) {
				at := strings.LastIndexByte(line, ' ')
				n, err := strconv.ParseInt(strings.TrimSuffix(line[at+1:], "\n"), 10, 64)
				if err != nil || n <= 0 {
					t.Fatalf("%q ends in no count", line)
				}
				path := strings.Split(line[:at], ";")
				if line[:at] == last {
					t.Errorf("%q is there twice", last)
				}
				last = line[:at]
				got[path[0]] += n
				frames += n * int64(len(path)-1)
			}
			for comm, n := range want {
				name := string(escape.Append(nil, []byte(cmp.Or(comm, "[no name]"))))
				if got[name] != n {
					t.Errorf("%d stacks of %q, want %d", got[name], name, n)
				}
				seen = true
			}
			if len(got) != len(want) || frames != wantFrames {
				t.Errorf("%d names of threads, %d frames, want %d and %d", len(got), frames, len(want), wantFrames)
			}
		})
	}
	if !seen {
		t.Error("no capture has a stack")
	}
}
