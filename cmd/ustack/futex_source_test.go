package main

import (
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestFutexBare: the pages of a ring buffer, which are not put into words for this,
// give the same answer as the text that the kernel has made of them. (What the pages
// tell of records that were overwritten before the text began is left aside.)
func TestFutexBare(t *testing.T) {
	captures, err := filepath.Glob("../../testdata/captures/*/*/raw.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, pages := range captures {
		dir := filepath.Dir(pages)
		if strings.HasPrefix(filepath.Base(dir), "lost") {
			continue
		}
		compared++
		got, _ := runs(t, exitOK, "futex", "-q", "--json", capturetest.Unpack(t, pages))
		want, _ := runs(t, exitOK, "futex", "-q", "--json", filepath.Join(dir, "trace.txt.zst"))
		if got != want {
			t.Errorf("%s: %d bytes of pages, %d of text, not the same", dir, len(got), len(want))
		}
		if !strings.Contains(got, `"wait_stacks"`) {
			t.Errorf("%s: no stack in\n%.500s", dir, got)
		}
	}
	if compared < 14 {
		t.Errorf("only %d captures", compared)
	}
}
