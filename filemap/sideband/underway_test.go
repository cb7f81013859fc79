package sideband

import (
	"errors"
	"testing"

	"ustack/filemap/threadcall"
)

// TestUnderWay: while a thread of a process may be in a call that began before the rings were
// open, or while records were lost, no code of it is known, whichever record comes; after
// that, once it was read again.
func TestUnderWay(t *testing.T) {
	h := startHelper(t, "idle")
	pid := h.cmd.Process.Pid
	b, r := openBand(t, Options{})
	inside := false
	b.underWay.find = func(_, _ int) threadcall.Place {
		if inside {
			return threadcall.Inside
		}
		return threadcall.Elsewhere
	}
	known := func(what string, want bool) {
		t.Helper()
		if err := b.Read(r, pid, 0); err != nil && !errors.Is(err, ErrUnderWay) {
			t.Fatal(err)
		}
		v := b.History.Spaces.Space(pid).At(b.Now())
		if v == nil {
			t.Fatalf("%s: the process is unknown", what)
		}
		if n := v.Mappings.Len(); n > 0 != want || v.Knows(page) != want {
			t.Errorf("%s: %d mappings", what, n)
		}
	}
	known("at the start", true)
	inside = true
	known("nothing was lost", true)
	b.gap(0, 1, b.Now(), b.Now())
	known("in a call", false)
	known("still", false)
	inside = false
	known("after it", true)
}
