package sideband

import (
	"os"
	"testing"
	"time"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/filemap/procmap"
)

// TestHeldExec: a process that is kept in the middle of an exec by a file system in user
// space keeps nothing waiting, and what could not be compared with it is not sure.
func TestHeldExec(t *testing.T) {
	b, r := openBand(t, Options{})
	h := fusetest.StartHeld(t)
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	var p procmap.Process
	if err := r.Process(h.PID, &p); err != nil || len(p.Mappings) == 0 {
		t.Fatalf("%d mappings, %v", len(p.Mappings), err)
	}
	h.Hold(t)
	b.comparing.calls = bounded.New(20 * time.Millisecond)
	b.completer.calls, b.completer.reader = bounded.New(20*time.Millisecond), r
	b.underWay.begin(b.Now())
	h.Within(t, 20*bounded.DefaultWait, func() {
		if newSettler(b, r).settle(h.PID) != unsettled {
			t.Error("it is known to be in no call")
		}
		newSettler(b, r).settleAll()
		if _, ok := b.compare(os.Getpid(), h.PID); ok {
			t.Error("the processes could be compared")
		}
		for i := range p.Mappings {
			b.completer.older(h.PID, &p.Mappings[i], time.Now())
		}
	})
	if v := b.History.Spaces.Space(os.Getpid()).At(b.Now()); v == nil || !v.Unseen {
		t.Errorf("what could not be compared is %+v", v)
	}
}
