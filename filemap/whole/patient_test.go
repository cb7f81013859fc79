package whole

import (
	"os"
	"testing"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

// TestSourceHeld: a process that is kept in the middle of an exec by a file system in user
// space keeps nothing waiting: all threads are sampled, now and when more is copied.
func TestSourceHeld(t *testing.T) {
	cannot := t.Skipf
	if os.Getenv("USTACK_LIVE") == "must" {
		cannot = t.Fatalf
	}
	root, err := instance.Find("")
	if err != nil {
		cannot("no tracefs: %v", err)
	}
	id, err := root.ID(instance.Event{System: "syscalls", Name: "sys_enter_futex"})
	if err != nil {
		cannot("no tracepoint: %v", err)
	}
	keeper, err := Keep(id)
	if err != nil {
		cannot("perf may not be used: %v", err)
	}
	defer keeper.Close()
	h := fusetest.StartHeld(t)
	h.Hold(t)
	h.Within(t, 10*bounded.DefaultWait, func() {
		s, err := OpenSource(SourceOptions{Options: Options{Tracepoint: id, Now: func() tracefs.Time { return 0 }},
			Threads: func() []int { return []int{h.PID} }})
		if err != nil {
			t.Errorf("opening the source: %v", err)
			return
		}
		if !s.held {
			t.Error("the process is not in the middle of an exec")
		}
		s.reopen()
		if s.Err() != nil {
			t.Errorf("opening it again: %v", s.Err())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
