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
		s.Attributions = append(s.Attributions, resolve.Named(&filemap.File{Path: path}, filemap.Verified))
	}
	return &resolve.Attached{Stack: s}
}

// TestReach counts stacks by how far they go: of the kernel's, it is not known whether
// they are complete.
func TestReach(t *testing.T) {
	const libc = "/usr/lib/libc.so.6"
	a := New(Options{})
	wait := func(n int, att *resolve.Attached) {
		for range n {
			a.calls.waits.add(a.stacks.Of(att))
		}
	}
	wait(2, unwoundStack(tracefs.NoStop, libc))
	kernel := resolve.Reach{Stacks: 2, End: "libc.so.6", Ends: 2}
	if got := a.reporter.reached(a.calls.waits); got == nil || *got != kernel {
		t.Errorf("of the kernel's stacks alone: got %+v, want %+v", got, kernel)
	}
	wait(5, unwoundStack(tracefs.AtRoot, libc, "/bin/app", libc))
	wait(3, unwoundStack(tracefs.AtCopy, libc, "/bin/app"))
	wait(1, unwoundStack(tracefs.AtRoot, libc, libc))
	got := a.reporter.reached(a.calls.waits)
	want := resolve.Reach{Stacks: 11, Unwound: 9, Application: 8, Root: 6, End: "app", Ends: 3}
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s := a.stacks.Get(a.stacks.Of(unwoundStack(tracefs.AtCopy, libc, "/bin/app"))); !s.Cut || s.End != tracefs.AtCopy {
		t.Errorf("a stack that ends early is not marked: %+v", s)
	}
}

// TestRecalledStacks: of two stacks with the same addresses, each keeps how it was found
// and why it ends.
func TestRecalledStacks(t *testing.T) {
	const libc = "/usr/lib/libc.so.6"
	a := New(Options{})
	file := &filemap.File{Path: libc}
	seen := make(map[int32]tracefs.Stop)
	for _, stop := range []tracefs.Stop{tracefs.NoStop, tracefs.AtFile, tracefs.AtRoot, tracefs.AtFile, tracefs.NoStop} {
		att := unwoundStack(stop, libc, libc)
		for i := range att.Stack.Attributions {
			att.Stack.Attributions[i].File = file
		}
		id := a.stacks.Of(att)
		if was, ok := seen[id]; ok && was != stop {
			t.Errorf("a stack that ends with %q is taken for one with %q", stop, was)
		}
		seen[id] = stop
		if got := a.stacks.Get(id).End; got != stop {
			t.Errorf("a stack that ends with %q has %q", stop, got)
		}
	}
}
