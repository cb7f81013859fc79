package futex

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// unwoundStack is a stack whose frames lie in files, unwound by ustack unless stop is
// NoStop.
func unwoundStack(stop tracefs.Stop, paths ...string) *resolve.Attached {
	s := &resolve.Stack{}
	for i, path := range paths {
		f := tracefs.Frame{Addr: uint64(i + 1), HasAddr: true, Form: tracefs.FormPlain}
		end := tracefs.NoStop
		if i == len(paths)-1 {
			end = stop
		}
		if stop != tracefs.NoStop {
			f.SetUnwound(tracefs.ByCFI, end)
		}
		s.Frames = append(s.Frames, f)
		s.Outcomes = append(s.Outcomes, resolve.Named(&filemap.File{Path: path}, filemap.Verified))
	}
	return &resolve.Attached{Stack: s}
}

// TestReach counts stacks by how far they go; without one that ustack has unwound,
// nothing is said.
func TestReach(t *testing.T) {
	const libc = "/usr/lib/libc.so.6"
	a := New(Options{})
	wait := func(n int, att *resolve.Attached) {
		for range n {
			a.calls.reach.waited(a.stacks.of(att), att)
		}
	}
	wait(2, unwoundStack(tracefs.NoStop, libc))
	if a.reporter.reached() != nil {
		t.Error("stacks of the kernel alone have a reach")
	}
	wait(5, unwoundStack(tracefs.AtRoot, libc, "/bin/app", libc))
	wait(3, unwoundStack(tracefs.AtCopy, libc, "/bin/app"))
	wait(1, unwoundStack(tracefs.AtRoot, libc, libc))
	got := a.reporter.reached()
	want := Reach{Waits: 11, Unwound: 9, Application: 8, Root: 6, End: "app", Ends: 3}
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s := a.stacks.get(a.stacks.of(unwoundStack(tracefs.AtCopy, libc, "/bin/app"))); !s.Cut || s.End != tracefs.AtCopy {
		t.Errorf("a stack that ends early is not marked: %+v", s)
	}
}
