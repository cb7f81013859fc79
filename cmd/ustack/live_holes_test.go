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

// TestLiveUnwindsHoles: stacks reach the root above pages that the thread has never touched.
func TestLiveUnwindsHoles(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program, out := filepath.Join(dir, "holes"), filepath.Join(dir, "out")
	compile(t, program, "holes.c", "-fomit-frame-pointer", "-rdynamic")
	text, err := exec.Command(ustackBinary(t), "live", "--unwind=copy", "-b", "8192", "--symbols", "--format", "json", "-o", out, "--", program, "3000").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
	if text, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	roots, list := 0, unwoundWaits(t, text)
	want := []string{"wait_once", "with_buffer", "thread"}
	for _, e := range list {
		var own []string
		for i := range e.Stack {
			if f := &e.Stack[i]; f.Path == program {
				own = append(own, f.Function)
			}
		}
		if len(own) > len(want) || !slices.Equal(own, want[:len(own)]) {
			continue // the main thread, and where the kernel's frames are
		}
		if e.End == "root" {
			if len(own) < len(want) {
				t.Fatalf("a whole stack has %q", own)
			}
			roots++
		}
	}
	t.Logf("%d of %d waits reach the root", roots, len(list))
	if roots == 0 {
		t.Error("no stack reaches the root")
	}
}
