package report

import (
	"testing"

	"ustack/filemap"
	"ustack/render/futex"
	"ustack/render/stackset"
	"ustack/tracefs"
)

// TestPlace: the place of a list is in the program, if a tenth of the time is there, or enough
// of the waits have callers.
func TestPlace(t *testing.T) {
	stack := func(path string) *stackset.Stack {
		f := stackset.Frame{Offset: 1}
		f.File = &filemap.File{Path: path}
		return &stackset.Stack{Frames: []stackset.Frame{f}}
	}
	libc, program := stack("/usr/lib/x86_64-linux-gnu/libc.so.6"), stack("/opt/shopd")
	nowhere := &stackset.Stack{Frames: []stackset.Frame{{Address: 0x18}}}
	other := stack("/opt/other")
	sampled := func(s *stackset.Stack, percent, count int64) (out futex.StackShare) {
		out.Stack, out.Count, out.Time = s, count, tracefs.Time(percent)
		return out
	}
	share := func(s *stackset.Stack, percent int64) (out futex.StackShare) {
		out.Stack, out.None = s, "lost"
		out.Time = tracefs.Time(percent)
		return out
	}
	for name, test := range map[string]struct {
		list []futex.StackShare
		want string
	}{
		"none":                    {nil, "?"},
		"one":                     {[]futex.StackShare{share(libc, 100)}, "libc.so.6+0x1"},
		"no stack":                {[]futex.StackShare{share(nil, 100)}, "(lost)"},
		"a stack":                 {[]futex.StackShare{share(nil, 60), share(libc, 40)}, "libc.so.6+0x1 (40 % of the time)"},
		"the program is second":   {[]futex.StackShare{share(libc, 57), share(program, 43)}, "shopd+0x1 (43 % of the time)"},
		"the program is too rare": {[]futex.StackShare{share(libc, 96), share(program, 4)}, "libc.so.6+0x1 (96 % of the time)"},
		"few have callers":        {[]futex.StackShare{sampled(libc, 9_500, 1e6), sampled(program, 30, 40), sampled(other, 10, 80)}, "shopd+0x1 (75 % of the time of 120 waits with callers)"},
		"too few have callers":    {[]futex.StackShare{sampled(libc, 9_500, 1e6), sampled(program, 30, 19)}, "libc.so.6+0x1 (100 % of the time)"},
		"many places":             {[]futex.StackShare{sampled(libc, 800, 1e6), sampled(program, 90, 90), sampled(other, 80, 80)}, "shopd+0x1 (53 % of the time of 170 waits with callers)"},
		"in no file":              {[]futex.StackShare{share(libc, 57), share(nowhere, 43)}, "libc.so.6+0x1 (57 % of the time)"},
	} {
		if got := place(test.list); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
