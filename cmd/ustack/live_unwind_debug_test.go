//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveUnwindsByDebugFile: where a file has no unwind table of its own, that of its
// separate debug file is used, found by build ID; without it
// the code is followed, or the stack ends in the file.
func TestLiveUnwindsByDebugFile(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	for _, name := range []string{"gcc", "objcopy", "strip"} {
		needProgram(t, name)
	}
	dir := t.TempDir()
	program, out := filepath.Join(dir, "tableless"), filepath.Join(dir, "out")
	debug := filepath.Join(dir, "debug", ".build-id", "5a", "17ab1e1e55000000000000000000000000debf.debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-optimize-sibling-calls", "-pthread",
			"-Wl,--build-id=0x5a17ab1e1e55000000000000000000000000debf", "-o", program, filepath.Join("testdata", "live", "tableless.c")},
		{"objcopy", "--only-keep-debug", program, debug},
		{"strip", program},
	} {
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	run := func(flags ...string) (waits []unwoundEvent, tables int) {
		args := append([]string{"live", "-q", "--unwind=copy", "-b", "8192", "--format", "json", "--symbols", "-o", out}, flags...)
		if text, err := exec.Command(ustackBinary(t), append(args, "--", program)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		waits = unwoundWaits(t, text)
		for _, e := range waits {
			// Code can be followed without tables.
			if e.End == "root" && !slices.ContainsFunc(e.Stack, func(f unwoundFrame) bool { return f.How == "code" }) {
				tables++
			}
		}
		return waits, tables
	}
	if waits, tables := run(); len(waits) < 100 || tables > 0 {
		t.Errorf("without the debug file, %d of %d waits reach the root by tables", tables, len(waits))
	}
	waits, tables := run("--debug-dir", filepath.Join(dir, "debug"))
	if len(waits) < 100 || tables*100 < 95*len(waits) {
		t.Errorf("with the debug file, %d of %d waits reach the root by tables", tables, len(waits))
	}
	for _, e := range waits {
		for i := range len(e.Stack) - 2 {
			if e.Stack[i].Function == "hold_lock" && (e.Stack[i+1].Function != "middle" || e.Stack[i+2].Function != "work") {
				t.Fatalf("hold_lock was called by %+v", e.Stack[i+1:])
			}
		}
	}
}
