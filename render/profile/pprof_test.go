//go:build !device

package profile

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// parsed is a profile as pprof reads it.
func parsed(t *testing.T, p *Profile, symbols symbol.Namer) *profile.Profile {
	t.Helper()
	out, err := profile.ParseData([]byte(written(t, p, "pprof", symbols)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// described is a sample in a line.
func described(s *profile.Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v", s.Value, s.Label)
	for _, l := range s.Location {
		b.WriteString(" |")
		if m := l.Mapping; m != nil {
			fmt.Fprintf(&b, " %s %s %#x", m.File, m.BuildID[:2], l.Address-m.Start+m.Offset)
		}
		for _, ln := range l.Line {
			fmt.Fprintf(&b, " %s %s:%d", ln.Function.Name, ln.Function.Filename, ln.Line)
		}
	}
	return b.String()
}

func TestPprof(t *testing.T) {
	p, symbols := small()
	out := parsed(t, p, symbols)
	want := []string{
		"[2]map[comm:[app] pid:[7]] | /lib/libc.so.6 02 0x10 wait :0 | /opt/app 01 0x1233 leaf leaf.h:7 ?? work.c:12 work work.c:40 | /opt/app 01 0x1fff",
		"[1]map[comm:[app] pid:[7]] | [heap] :0 | [no-vma] :0 | /opt/app 01 0x1fff | [truncated] :0",
		"[3]map[comm:[app] pid:[8]] | /lib/libc.so.6 02 0x10 wait :0 | /opt/app 01 0x1233 leaf leaf.h:7 ?? work.c:12 work work.c:40 | /opt/app 01 0x1fff",
		"[4]map[comm:[a;p\np] pid:[9]] | /lib/libc.so.6 02 0x10 wait :0 | /opt/app 01 0x1233 leaf leaf.h:7 ?? work.c:12 work work.c:40 | /opt/app 01 0x1fff",
		"[5]map[pid:[9]] | [no frames] :0",
	}
	want[3] = strings.ReplaceAll(want[3], "a;p\np", "a;p\n\ufffdp")
	for i, s := range out.Sample {
		if got := described(s); i >= len(want) || got != want[i] {
			t.Errorf("sample %d is\n%q", i, got)
		}
	}
	if len(out.Sample) != len(want) {
		t.Errorf("%d samples, want %d", len(out.Sample), len(want))
	}
	// The program comes first, for that is what pprof takes for the program.
	if m := out.Mapping[0]; m.File != "/opt/app" || !m.HasFunctions || !m.HasFilenames || !m.HasLineNumbers || !m.HasInlineFrames {
		t.Errorf("the first mapping is %+v", m)
	}
	if m := out.Mapping[1]; !m.HasFunctions || m.HasFilenames || m.HasLineNumbers || m.HasInlineFrames {
		t.Errorf("the second mapping is %+v", m)
	}
	for _, m := range parsed(t, p, nil).Mapping {
		if m.HasFunctions {
			t.Errorf("mapping %+v has functions that were not asked for", m)
		}
	}
}

// TestPprofHostile: offsets that no file has, and as many files as there are.
func TestPprofHostile(t *testing.T) {
	p := New(WaitTicks)
	huge := file("/huge", 1)
	add := func(frames ...Frame) { p.Add(p.Stack(frames, nil, false), Labels{Lock: "l"}, Value{Count: 1, Time: 2}) }
	add(Frame{File: huge, Offset: math.MaxUint64}, Frame{File: huge}, Frame{File: huge, Offset: 1<<spaceBits - 1}, Frame{File: huge, Offset: 1 << spaceBits})
	for i := range 1000 {
		add(Frame{File: &filemap.File{Path: fmt.Sprint("/", i, "\xff")}, Offset: 1<<spaceBits - 1}, Frame{})
	}
	out := parsed(t, p, nil)
	if got, want := described(out.Sample[0]),
		"[1 2]map[lock:[l]] | huge+0xffffffffffffffff :0 | /huge 01 0x0 | /huge 01 0xfffffffffe | huge+0x10000000000 :0"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i, m := range out.Mapping {
		if i > 0 && m.Start < out.Mapping[i-1].Limit || m.Start >= m.Limit {
			t.Fatalf("%+v after %+v", m, out.Mapping[i-1])
		}
	}
	if u := out.SampleType[1].Unit; u != "ticks" {
		t.Errorf("ticks are called %s", u)
	}
}
