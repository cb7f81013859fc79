package sideband

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// TestUnfinished: when the return of an mremap is lost, it is unknown what is at both places,
// and the return of a later call does not count for it.
func TestUnfinished(t *testing.T) {
	move := func(s *steps, from, to uint64) {
		s.calls(moving, parent, parent, from, codeSize, codeSize, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, to)
	}
	for name, c := range map[string]struct {
		after func(s *steps)
		lost  bool
		known bool // the code is at the new place
	}{
		"it returns":                      {func(s *steps) { s.calls(moved, parent, parent, movedTo) }, false, true},
		"it returns, but for a loss":      {func(s *steps) { s.calls(moved, parent, parent, movedTo) }, true, false},
		"another one returns":             {func(s *steps) { s.calls(moved, parent, parent, movedTo+codeSize) }, true, false},
		"the thread calls something else": {func(s *steps) { s.calls(unmapping, parent, parent, movedTo+8*codeSize, page) }, true, false},
		"the thread calls it again":       {func(s *steps) { move(s, movedTo+8*codeSize, movedTo+16*codeSize) }, true, false},
		"the thread ends":                 {func(s *steps) { s.ends(parent, parent) }, true, false},
	} {
		b, s := newSteps()
		s.code(parent, parent, codeAt)
		move(s, codeAt, movedTo)
		at := tracefs.Time(s.t + 500)
		c.after(s)
		if c.lost {
			b.softGap(0, 1, at, at)
		}
		drain(t, b)
		now := tracefs.Time(s.t + 1)
		if _, ok := b.History.Spaces.Lookup(parent, movedTo, now); ok != c.known {
			t.Errorf("%s: code is at the new place: %v", name, ok)
		}
		if _, ok := b.History.Spaces.Lookup(parent, movedTo+codeSize, now); ok {
			t.Errorf("%s: code is at a place where another call moved something", name)
		}
		for _, addr := range []uint64{codeAt, movedTo} {
			if known := b.History.Spaces.Space(parent).At(now).Knows(addr); known != c.known {
				t.Errorf("%s: what is at %#x is known: %v", name, addr, known)
			}
		}
	}
}
