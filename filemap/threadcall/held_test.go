package threadcall

import (
	"testing"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/filemap/procmap"
)

// TestHeldExec: a process that is kept in the middle of an exec by a file system in user
// space keeps nothing waiting, and may be in any call.
func TestHeldExec(t *testing.T) {
	h := fusetest.StartHeld(t)
	r, err := procmap.NewReader(procmap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	places := New(r)
	h.Hold(t)
	h.Within(t, 20*bounded.DefaultWait, func() {
		for range 100 {
			if place := places.Find(h.PID, h.PID, 0); place != Inside {
				t.Errorf("it is at place %d", place)
			}
			if places.Hidden(h.PID, h.PID) {
				t.Error("it is hidden")
			}
		}
	})
}
