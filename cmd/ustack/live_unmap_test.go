//go:build linux

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveUnmap: code is not there, or is only late, after it was unmapped in ways that name
// another range or none: by brk, also of a heap that prctl or a 32-bit call has moved; by an
// mmap that fails where a huge page would go; by a munmap after which a filter refuses another one; by
// one of many processes that share their memory.
func TestLiveUnmap(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program, library := filepath.Join(dir, "unmap"), filepath.Join(dir, "library.so")
	compile(t, program, "unmap.c", "-fno-omit-frame-pointer")
	if err := os.WriteFile(library, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := traceLive(t, []string{"--unwind=fp", "-e", "syscalls:sys_enter_futex/op == 129/"}, program, library)
	events := slices.DeleteFunc(r.events, func(e liveEvent) bool { return e.Comm != "unmap" })
	const compat = 19 // calls before those by int 0x80
	calls := compat
	if runtime.GOARCH == "amd64" {
		calls += 4
	}
	if r.code != 0 || len(events) != calls {
		t.Fatalf("code %d, %d events\n%s", r.code, len(events), r.stderr)
	}
	for i, e := range events {
		there := strings.HasSuffix(e.Args, "val3: 1") || strings.HasSuffix(e.Args, "val3: 0x1")
		if i < compat && i%2 == 0 && !there || i < 10 && there != (i%2 == 0) { // the kernel may not know the other ways
			t.Errorf("call %d has %s", i, e.Args)
		}
		for _, f := range e.Stack {
			if f.Path == library && !there && (i < compat || f.Trust != "late") {
				t.Errorf("call %d is in the library, %s, which is unmapped", i, f.Trust)
			}
		}
		// Nothing is unmapped yet, and all have ended that shared the program's memory.
		if n := len(e.Stack); (i == 0 || i == compat-1) && (n < 2 || e.Stack[n-1].Path != library) {
			t.Errorf("call %d is not in the library: %+v\n%s", i, e.Stack, r.stderr)
		}
	}
}
