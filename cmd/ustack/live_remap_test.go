//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveRemap: code that comes to where other code was has its own file, or
// none, and never that of before, however it came there: by mremap over what is
// mapped, over what was unmapped, as a copy, and by a process that shares the
// memory. None of these has a record of perf.
func TestLiveRemap(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program, first, second := filepath.Join(dir, "remap"), filepath.Join(dir, "first.so"), filepath.Join(dir, "second.so")
	compile(t, program, "remap.c", "-ldl")
	compile(t, first, "remaplib.c", "-shared", "-fPIC", "-DPAD=1")
	compile(t, second, "remaplib.c", "-shared", "-fPIC", "-DPAD=2")
	for _, way := range []string{"move", "gone", "vm", "copy"} {
		r := traceLive(t, []string{"-e", "syscalls:sys_enter_futex/op == 129/"}, program, first, second, way)
		events := slices.DeleteFunc(r.events, func(e liveEvent) bool { return e.Comm != "remap" })
		if r.code != 0 || len(events) != 15 {
			t.Fatalf("%s: code %d, %d events\n%s", way, r.code, len(events), r.stderr)
		}
		for i, e := range events {
			want := []string{first, second}[i%2]
			if i >= 10 {
				want = first
			}
			checkRemapped(t, way, i, &e, want, way == "copy" && i >= 10, []string{first, second})
		}
	}
}

// checkRemapped checks the one frame that is in one of the libraries, or in memory.
func checkRemapped(t *testing.T, way string, i int, e *liveEvent, want string, memory bool, libraries []string) {
	t.Helper()
	found := false
	for _, f := range e.Stack {
		switch {
		case memory && f.Reason == "anonymous":
			found = true
		case !slices.Contains(libraries, f.Path):
		case memory || f.Path != want:
			t.Errorf("%s: call %d is in %s, %s, want %s (memory: %v)", way, i, filepath.Base(f.Path), f.Trust, filepath.Base(want), memory)
		default:
			found = found || f.Trust == "verified"
		}
	}
	if !found && !strings.Contains(e.Name, "exit") {
		t.Errorf("%s: call %d is nowhere: %+v", way, i, e.Stack)
	}
}
