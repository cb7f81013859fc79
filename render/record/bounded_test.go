package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestMergeBounded: however many stacks reports have, and however long ones, few are kept
// apart. All are counted.
func TestMergeBounded(t *testing.T) {
	long := strings.Repeat("x", maxStackText)
	for _, test := range []struct {
		name    string
		stacks  int
		devices int
		frames  func(n int) string
	}{
		{"long", 1500, 1, func(n int) string { return fmt.Sprint(n, long) }},
		{"short", maxStacks + 1000, 1, func(n int) string { return fmt.Sprint(n) }},
		{"of many devices", 3000, 400, func(n int) string { return fmt.Sprint(n) }},
	} {
		m := NewMerge()
		for range test.devices {
			r := m.Report()
			r.device()
			for n := range test.stacks {
				r.add("event", test.frames(n))
			}
		}
		kept, counted := 0, int64(0)
		for key, c := range m.stacks {
			kept += len(key.event) + len(key.frames) + perStack + perCount*len(c.byDevice)
			for _, n := range c.byDevice {
				counted += n
			}
		}
		others := perStack + len(otherStacks) + perCount*test.devices
		if kept > maxMergeBytes+others || len(m.stacks) > maxStacks+1 || m.bytes > kept {
			t.Errorf("%s: %d bytes in %d stacks are kept, counted as %d", test.name, kept, len(m.stacks), m.bytes)
		}
		if want := int64(test.stacks * test.devices); counted != want {
			t.Errorf("%s: %d stacks are counted of %d", test.name, counted, want)
		}
		if m.stacks[stackKey{"", otherStacks}] == nil {
			t.Errorf("%s: too few stacks for a test", test.name)
		}
	}
}

// TestHeadBounded: of a head without an end little is kept.
func TestHeadBounded(t *testing.T) {
	r := NewMerge().Report()
	for n := range 1000 {
		check(t, r.field(fmt.Appendf(nil, "%skey%d=%s\n", reportLine, n, strings.Repeat("v", 10_000))))
	}
	if n := len(strings.Join(r.fields, "")); n == 0 || n > maxFieldBytes {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestFilesBounded: however many files a report has, few are kept, and the frames in the
// others are unresolved.
func TestFilesBounded(t *testing.T) {
	long := strings.Repeat("d/", 2000)
	for _, test := range []struct {
		name        string
		files       int
		path        string
		unannounced bool
	}{
		{"long paths", 3 * maxAllBytes / len(long), long, true},
		{"long paths, announced", 3 * maxKnownBytes / len(long), long, false},
		{"many", maxAnnounced + 10, "", false},
		{"many at the end", maxAllBytes/perFile + 100, "", true},
	} {
		var out bytes.Buffer
		c := NewCompact(&out)
		c.Unannounced = test.unannounced
		forgotten := 0
		for n := range test.files {
			c.buf, c.fresh = c.buf[:0], c.fresh[:0]
			file := &filemap.File{Path: fmt.Sprint("/", n, test.path), HasID: true}
			c.frame(nil, &tracefs.Frame{}, &resolve.Attribution{File: file, HasOffset: true, Offset: 0x10, Trust: filemap.Announced})
			switch end := string(c.buf); {
			case end == " =>  <0000000000000010> (unresolved: forgotten)":
				forgotten++
			case !strings.Contains(end, "> : 0x4"):
				t.Fatalf("%s: %s", test.name, end)
			}
			c.announceFiles(nil)
		}
		all, known := 0, 0
		for _, f := range c.all {
			all += f.size()
		}
		for f := range c.known {
			known += f.size()
		}
		if size := (marked{file: &filemap.File{Path: test.path}}).size() + 10; all > maxAllBytes+size || known > maxKnownBytes+size || known != c.bytes || all != c.allBytes {
			t.Errorf("%s: %d and %d bytes are kept", test.name, all, known)
		}
		if len(c.announced) > maxAnnounced || len(c.known) > maxKnown || len(c.Identifiers.seen) > maxAnnounced {
			t.Errorf("%s: %d, %d and %d files are kept", test.name, len(c.announced), len(c.known), len(c.Identifiers.seen))
		}
		if many := test.unannounced || test.path == ""; many != (forgotten > 0) || forgotten >= test.files-10 {
			t.Errorf("%s: %d of %d frames are unresolved", test.name, forgotten, test.files)
		}
	}
}
