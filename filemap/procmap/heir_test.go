package procmap

import (
	"slices"
	"testing"
)

// TestHeir: a process whose first thread has ended has what its other threads have.
func TestHeir(t *testing.T) {
	h := startHelper(t, "heir")
	for _, source := range []Source{Auto, Text} {
		r, err := NewReader(Options{Source: source, Stat: true, IDs: NewIDs(nil), Filter: Filter{Perms: Exec}})
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { s, err := r.Stat(h.pid); return err == nil && s.Ended() })
		threads, err := r.Threads(h.pid)
		if err != nil || len(threads) < 2 {
			t.Fatalf("%v: threads %v, %v", source, threads, err)
		}
		var p, thread Process
		if err := r.Process(h.pid, &p); err != nil {
			t.Fatalf("%v: %v", source, err)
		}
		if err := r.Process(threads[1], &thread); err != nil {
			t.Fatal(err)
		}
		if p.PID != h.pid || !p.Stat.Ended() || len(p.Mappings) == 0 || !slices.Equal(p.Mappings, thread.Mappings) {
			t.Errorf("%v: process %d has %+v, its thread %+v", source, p.PID, p.Mappings, thread.Mappings)
		}
		open, err := r.Open(h.pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range p.Mappings {
			if m, ok, err := open.At(want.Start); err != nil || !ok || m != want {
				t.Errorf("%v: at %#x there is %+v, %v, %v, want %+v", source, want.Start, m, ok, err, want)
			}
		}
		open.Close()
	}
}
