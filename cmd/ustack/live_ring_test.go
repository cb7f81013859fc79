//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveRing: code over the ring of an AIO context is not there after io_destroy, nor is it
// in a child if its parent has marked it (MADV_DONTFORK).
func TestLiveRing(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program, library := filepath.Join(dir, "ring"), filepath.Join(dir, "library.so")
	compile(t, program, "ring.c", "-fno-omit-frame-pointer")
	if err := os.WriteFile(library, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"aio", "fork"} {
		t.Run(way, func(t *testing.T) { checkRing(t, program, library, way) })
	}
	t.Run("query", func(t *testing.T) {
		r := traceLive(t, []string{"--unwind=fp", "--mappings=query", "-e", "syscalls:sys_enter_futex/op == 129/"}, program, library, "slow")
		events := slices.DeleteFunc(r.events, func(e liveEvent) bool { return e.Comm != "ring" })
		if r.code != 0 || len(events) != 12 {
			t.Fatalf("code %d, %d events\n%s", r.code, len(events), r.stderr)
		}
		for i, e := range events {
			there := strings.HasSuffix(e.Args, "val3: 1") || strings.HasSuffix(e.Args, "val3: 0x1")
			if slices.ContainsFunc(e.Stack, func(f liveFrame) bool { return f.Path == library }) && !there {
				t.Errorf("call %d is in the library, which is not there", i)
			}
		}
	})
}

// checkRing traces the program in one of its ways.
func checkRing(t *testing.T, program, library, way string) {
	r := traceLive(t, []string{"--unwind=fp", "-e", "syscalls:sys_enter_futex/op == 129/"}, program, library, way)
	if r.code == 77 {
		t.Skip("NOT RUN: the kernel has no AIO for us")
	}
	events := slices.DeleteFunc(r.events, func(e liveEvent) bool { return e.Comm != "ring" })
	if r.code != 0 || len(events) != 10 {
		t.Fatalf("code %d, %d events\n%s", r.code, len(events), r.stderr)
	}
	for i, e := range events {
		there := strings.HasSuffix(e.Args, "val3: 1") || strings.HasSuffix(e.Args, "val3: 0x1")
		if there != (i%2 == 0) {
			t.Errorf("call %d has %s", i, e.Args)
		}
		for _, f := range e.Stack {
			if f.Path == library && !there {
				t.Errorf("call %d is in the library, %s, which is not there", i, f.Trust)
			}
		}
		if n := len(e.Stack); i == 0 && (n < 2 || e.Stack[n-1].Path != library) {
			t.Errorf("the first call is not in the library: %+v", e.Stack)
		}
	}
}
