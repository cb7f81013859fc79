//go:build !device

package report

import (
	"encoding/json"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/render/stackset"
)

// sampledStack is a stack of frames "FILE FUNCTION LINE", or "FILE - OFFSET" without a name.
func sampledStack(frames ...string) *futex.Stack {
	s := new(futex.Stack)
	for _, text := range frames {
		part := strings.Fields(text)
		f := stackset.Frame{Offset: uint64(len(part[2]))}
		f.File = &filemap.File{Path: "/usr/lib/" + part[0]}
		if part[1] != "-" {
			f.Name = &symbol.Name{Function: part[1], File: "w.c", Line: len(part[2])}
		}
		s.Frames = append(s.Frames, f)
	}
	return s
}

// TestRunning: where owners ran is by function, those of the C library with their caller; it is
// left out where few samples show it.
func TestRunning(t *testing.T) {
	sampled := func(n int64, frames ...string) futex.Sampled {
		return futex.Sampled{Stack: sampledStack(frames...), Count: n}
	}
	for name, c := range map[string]struct {
		list []futex.Sampled
		want string
	}{
		"none":         {nil, ""},
		"few":          {[]futex.Sampled{sampled(9, "shopd work .")}, ""},
		"one function": {[]futex.Sampled{sampled(6, "shopd work ."), sampled(3, "shopd work .."), sampled(3, "shopd other .")}, "at work w.c:1 (75 % of 12 samples)"},
		"by most": {[]futex.Sampled{sampled(10, "shopd other ."), sampled(9, "shopd work .", "shopd main ."), sampled(8, "shopd work ..", "shopd main ...")},
			"at work w.c:1 < main w.c:1 (63 % of 27 samples)"},
		"in the C library": {[]futex.Sampled{sampled(8, "libc.so.6 memcpy ...", "shopd work ."), sampled(7, "libc.so.6 memcpy .", "shopd work .."), sampled(10, "libc.so.6 memcpy .", "shopd other .")},
			"at memcpy w.c:3 < work w.c:1 (60 % of 25 samples)"},
		"without names": {[]futex.Sampled{sampled(8, "shopd - ...", "shopd - ."), sampled(7, "shopd - ..", "shopd - ."), sampled(10, "shopd - ....", "shopd - ..")},
			"at shopd+0x3 < shopd+0x1 (60 % of 25 samples)"},
		"only the library":   {[]futex.Sampled{sampled(20, "libc.so.6 memcpy .")}, "at memcpy w.c:1 (100 % of 20 samples)"},
		"some have no place": {[]futex.Sampled{sampled(20, "shopd work ."), {Count: 20}}, "at work w.c:1 (50 % of 40 samples)"},
		"none has a place":   {[]futex.Sampled{{Count: 20}}, ""},
	} {
		var h futex.Holds
		for _, s := range c.list {
			h.Samples += s.Count
		}
		h.Sampled = c.list
		if got := (holdText{new(text)}).running(&h); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (holdText{new(text)}).running(nil); got != "" {
		t.Errorf("without holds: %q", got)
	}
}

// TestSampledJSON: a document has samples only where there are some.
func TestSampledJSON(t *testing.T) {
	for want, h := range map[string]*futex.Holds{
		"": {Count: 1},
		`"samples":5,"sampled":[{"count":3,"stack":[`: {Samples: 5, Sampled: []futex.Sampled{{Stack: sampledStack("shopd work ."), Count: 3}, {Count: 2}}},
	} {
		b, err := json.Marshal(holdsOf(h))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b); want == "" && strings.Contains(got, "sample") || !strings.Contains(got, want) || want != "" && !strings.Contains(got, `{"count":2}]`) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
