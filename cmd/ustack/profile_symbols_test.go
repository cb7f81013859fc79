package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestFoldedSymbols: folded lines have the names that the JSON lines have,
// inlined functions among them. Frames without a name are "?" here.
func TestFoldedSymbols(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	args := []string{"-q", "--symbols", "--sysroot", truthRoot(t), "../../testdata/captures/hash/pipe_default/trace.txt.zst"}
	want, named := make(map[string]int64), 0
	for line := range strings.Lines(profileRun(t, append([]string{"replay", "--format=json"}, args...)...)) {
		var r struct {
			Type, Comm string
			Stack      []symbolFrame
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Stack == nil || r.Type == "file_map" {
			continue
		}
		var path []string // innermost first
		for _, f := range r.Stack {
			for _, in := range f.Inlined {
				path = append(path, in.Function)
			}
			if f.Function == "" {
				f.Function = "?"
			} else {
				named++
			}
			if f.Inferred {
				f.Function += " (inferred)"
			}
			path = append(path, f.Function)
		}
		slices.Reverse(path)
		want[r.Comm+";"+strings.Join(path, ";")]++
	}
	got := make(map[string]int64)
	for line := range strings.Lines(profileRun(t, append([]string{"replay", "--format=folded"}, args...)...)) {
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[at:]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		path := strings.Split(line[:at], ";")
		for i, name := range path {
			if i > 0 && (strings.Contains(name, "+0x") || strings.HasPrefix(name, "[")) {
				path[i] = "?"
			}
		}
		got[strings.Join(path, ";")] += n
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%d of %s, want %d", got[key], key, n)
		}
	}
	if !maps.Equal(got, want) || named < 1000 {
		t.Errorf("%d different stacks, want %d; %d frames with names", len(got), len(want), named)
	}
}
