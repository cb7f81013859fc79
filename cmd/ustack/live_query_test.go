//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// TestLiveQuery: without perf there is less that can be known, and all of it is
// late; but no name is wrong.
func TestLiveQuery(t *testing.T) {
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
		"herd": {"herd"}, "storm": {"storm", "60"}, "forks": {"forks", "20"}, "jit": {"jit"},
		"plugins": append([]string{"plugins"}, order...),
	} {
		t.Run(name, func(t *testing.T) {
			tr.t, tr.frames, tr.nameless = t, 0, 0
			r := traceLive(t, []string{"--mappings=query"}, append([]string{work}, command...)...)
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
			// What lives for a moment only is seldom still there to be asked.
			if tr.frames == 0 && name == "herd" {
				t.Error("not one name")
			}
		})
	}
}
