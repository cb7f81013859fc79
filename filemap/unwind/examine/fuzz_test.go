package examine

import (
	"bytes"
	"debug/elf"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/health"
	"ustack/filemap/unwind/table"
	"ustack/tracefs/capturetest"
)

// FuzzLook looks at files of any bytes: shares are shares, no more functions are counted
// than the file has room for, and there are reasons for what does not go through.
func FuzzLook(f *testing.F) {
	names, err := filepath.Glob("../testdata/tiny/*.gz")
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".stacks.gz") {
			f.Add(capturetest.Gunzip(f, name))
		}
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var debug *image.Image
		if x, err := image.Open(bytes.NewReader(b), int64(len(b))); err == nil {
			debug = x // a file can be its own debug file
		}
		p, err := look(b, debug)
		if err != nil {
			return
		}
		for _, share := range [...]float64{p.Covered, p.Reach, p.EHFrame.Covered, p.DebugFrame.Covered, p.SFrame.Covered, p.GoTable.Covered, p.Separate.DebugFrame.Covered} {
			if !(share >= 0 && share <= 1) {
				t.Fatalf("a share of %v: %+v", share, *p)
			}
		}
		const smallest = 8 // bytes of a table about one function
		if n := p.EHFrame.Functions + p.DebugFrame.Functions + p.SFrame.Functions + p.GoTable.Functions; n*smallest > len(b)+4*smallest {
			t.Fatalf("%d functions in %d bytes", n, len(b))
		}
		if p.Missing > p.Code || p.Keeping > p.Looked || p.Gap.End-p.Gap.Start > p.Missing {
			t.Fatalf("%+v", *p)
		}
		if list := p.Reasons(); p.Unwound() == health.Stops && len(list) == 0 {
			t.Fatalf("no reason: %+v", *p)
		}
	})
}

// TestCover: shares and gaps of code.
func TestCover(t *testing.T) {
	span := func(start, end uint64) table.Span { return table.Span{Start: start, End: end} }
	pieces := []piece{{span(0x1000, 0x2000), ".text"}, {span(0x2000, 0x2100), ".other"}}
	for _, c := range []struct {
		what  string
		spans []table.Span
		has   uint64
		gaps  []table.Span
	}{
		{"nothing", nil, 0, []table.Span{span(0x1000, 0x2000), span(0x2000, 0x2100)}},
		{"all", []table.Span{span(0, 0x3000)}, 0x1100, nil},
		{"padding", []table.Span{span(0x1000, 0x17f1), span(0x1800, 0x1ff8), span(0x2000, 0x2100)}, 0x1100, nil},
		{"a gap", []table.Span{span(0x1000, 0x1800), span(0x1810, 0x2100)}, 0x10f0, []table.Span{span(0x1800, 0x1810)}},
		{"twice the same, and within", []table.Span{span(0x1000, 0x1900), span(0x1000, 0x1900), span(0x1100, 0x1200)}, 0x900, []table.Span{span(0x1900, 0x2000), span(0x2000, 0x2100)}},
		{"outside", []table.Span{span(0, 0x1000), span(0x2100, 0x9000)}, 0, []table.Span{span(0x1000, 0x2000), span(0x2000, 0x2100)}},
	} {
		var gaps []table.Span
		has := cover(pieces, flat(c.spans), func(_ *piece, s table.Span) { gaps = append(gaps, s) })
		if has != c.has || len(gaps) != len(c.gaps) {
			t.Errorf("%s: %#x bytes, gaps %x, want %#x, %x", c.what, has, gaps, c.has, c.gaps)
			continue
		}
		for i := range gaps {
			if gaps[i] != c.gaps[i] {
				t.Errorf("%s: gap %x, want %x", c.what, gaps[i], c.gaps[i])
			}
		}
	}
}

// TestPassage: what the numbers mean for stacks.
func TestPassage(t *testing.T) {
	for _, c := range []struct {
		what            string
		p               health.Report
		unwound, kernel health.Passage
		reasons         string
	}{
		{"as distributions build", health.Report{Code: 1 << 20, Reach: 1, EHFrame: health.Table{Present: true}, FramePointers: 2, Names: health.Exported}, health.Through, health.Stops, "no-frame-pointers exports-only no-build-id"},
		{"neither", health.Report{Code: 1 << 20, Missing: 1 << 20, FramePointers: 2, Names: health.All}, health.Stops, health.Stops, "no-information no-build-id"},
		{"only frame pointers", health.Report{Code: 1 << 20, Missing: 1 << 20, Plain: true, Reach: 1, FramePointers: 1, Names: health.All}, health.Through, health.Through, "no-build-id"},
		{"half", health.Report{Code: 1 << 20, Missing: 1 << 19, Reach: 0.5, EHFrame: health.Table{Present: true}, FramePointers: 3}, health.Stops, health.Mostly, "left-out some-frame-pointers no-symbols no-build-id"},
		{"nearly all", health.Report{Code: 1 << 20, Missing: 1 << 19, Reach: 0.95, EHFrame: health.Table{Present: true}, FramePointers: 1, Names: health.All}, health.Mostly, health.Through, "left-out no-build-id"},
		{"neither, without section headers", health.Report{NoSections: true, Code: 1 << 20, Missing: 1 << 20}, health.Stops, health.Unsure, "no-sections no-build-id"},
		{"start files alone", health.Report{Code: 300, Missing: 300, Reach: 1, Names: health.All}, health.Through, health.Unsure, "no-build-id"},
		{"data without section headers", health.Report{NoSections: true}, health.Unsure, health.Unsure, "no-code no-build-id"},
		{"a debug file", health.Report{Names: health.All}, health.Unsure, health.Unsure, "no-code no-build-id"},
		{"names in a debug file", health.Report{Code: 300, Reach: 1, Separate: health.Separate{Names: health.All}}, health.Through, health.Unsure, "no-build-id"},
	} {
		c.p.Machine, c.p.Wide = elf.EM_X86_64, true
		words := ""
		for i, r := range c.p.Reasons() {
			if i > 0 {
				words += " "
			}
			words += r.String()
			if r.Why() == "" || r.Do("") == "" || r.Do("1234") == "" {
				t.Errorf("%v has no words", r)
			}
		}
		if c.p.Unwound() != c.unwound || c.p.Kernel() != c.kernel || words != c.reasons {
			t.Errorf("%s: %v, %v, %s, want %v, %v, %s", c.what, c.p.Unwound(), c.p.Kernel(), words, c.unwound, c.kernel, c.reasons)
		}
	}
	other := health.Report{Machine: elf.EM_386, Code: 1 << 20, Names: health.All}
	if list := other.Reasons(); other.Unwound() != health.Unsure || len(list) == 0 || list[0] != health.OtherMachine {
		t.Errorf("another machine: %v, %v", other.Unwound(), list)
	}
}
