//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveQuery: without perf there is less that can be known, and all of it is
// late; but no name is wrong.
func TestLiveQuery(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	var libs []string
	for i, pad := range []string{"1", "7"} {
		lib := filepath.Join(filepath.Dir(work), fmt.Sprintf("lib %d.so", i))
		compile(t, lib, "plugin.c", "-shared", "-fPIC", "-DPAD="+pad)
		tr.file(lib, lib)
		libs = append(libs, lib)
	}
	order := []string{libs[0], libs[1], libs[0]}
	for name, command := range map[string][]string{
		"linger": {"linger"}, "storm": {"storm", "60"}, "forks": {"forks", "20"}, "jit": {"jit"},
		"plugins": append([]string{"plugins"}, order...),
	} {
		t.Run(name, func(t *testing.T) {
			tr.t, tr.frames, tr.nameless = t, 0, 0
			until := ""
			if name == "linger" {
				until = `"late"`
			}
			r := traceLiveUntil(t, until, []string{"--mappings=query"}, append([]string{work}, command...)...)
			if !strings.Contains(r.stderr, "mappings by queries and tracepoints (some frames of short-lived processes get no file)") {
				t.Errorf("the first line does not say what to expect\n%s", r.stderr)
			}
			entry := 0
			for i := range r.events {
				e := &r.events[i]
				names := tr.chain(e)
				for k, f := range e.Stack {
					if f.Path != "" && f.Trust != "late" {
						t.Errorf("frame %d is %s", k, f.Trust)
					}
				}
				if names[0] == waits[0] && !slices.Equal(names[:len(waits)], waits) {
					t.Errorf("stack %v", names)
				}
				if name == "plugins" && len(e.Stack) > 3 && e.Stack[3].Path != "" && e.Stack[3].Path != order[entry/2] {
					t.Errorf("plugin %d is %s, want %s", entry/2, e.Stack[3].Path, order[entry/2])
				}
				if name == "plugins" && len(e.Stack) > 3 {
					entry++
				}
			}
			t.Logf("%d frames with a name, %d without", tr.frames, tr.nameless)
			// What lives for a moment only may be gone before it is asked; this one
			// is there until it has been.
			if name == "linger" && tr.frames == 0 {
				t.Error("not one name")
			}
		})
	}
}
