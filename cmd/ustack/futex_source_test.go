package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/capturetest"
)

// TestFutexBare: the pages of a ring buffer, which are not put into words for this,
// give the same answer as the text that the kernel has made of them. (Records that
// were overwritten before the text began, which the pages report, are left aside.)
func TestFutexBare(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
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

// TestFutexBatches: pages come in other batches than their text, which is the same
// to the answer, also to what wakeups prove only when no loss can reach them.
func TestFutexBatches(t *testing.T) {
	dir := capturetest.Unpack(t, "../../testdata/captures/stock/lost_raw/raw.tar.zst")
	var names []byte
	for pid := range 1000 {
		names = fmt.Appendf(names, "%d thread-%d\n", pid, pid)
	}
	if err := os.WriteFile(filepath.Join(dir, "meta", "saved_cmdlines"), names, 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := binary.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var text []byte
	for s, err := d.Source(binary.Options{}, nil), error(nil); err == nil; {
		var b tracefs.Batch
		if err = s.Next(&b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		text = append(text, b.Text...)
	}
	file := filepath.Join(dir, "trace.txt")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	got, _ := runs(t, exitOK, "futex", "-q", "--json", dir)
	want, _ := runs(t, exitOK, "futex", "-q", "--json", file)
	if got != want {
		t.Errorf("%d bytes of pages, %d of text, not the same", len(got), len(want))
	}
}
