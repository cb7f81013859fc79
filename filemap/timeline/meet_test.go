package timeline

import (
	"testing"

	"ustack/filemap/space"
	"ustack/tracefs"
)

// met are threads that are known once they have been met.
type met struct {
	answers
	of map[int]int
}

func (m *met) PID(tid int, _ tracefs.Time) (int, bool, bool) {
	pid, ok := m.of[tid]
	return pid, false, ok
}

func (m *met) Meet(tid int, t tracefs.Time) bool {
	m.of = map[int]int{tid: 1}
	m.spaces.Map(1, m.m, t)
	return true
}

// TestAttributeMeetsThread: a thread that is not known has what its process has, from the
// first stack on.
func TestAttributeMeetsThread(t *testing.T) {
	spaces := space.New()
	m := &met{answers: answers{spaces: spaces, m: elf("/lib/one", 0x10000, 0x20000, 0)}}
	j := New(Options{Spaces: spaces, Threads: m, Querier: m, Stamp: TextStamp()})
	for i, want := range []string{"/lib/one+0x10 late", "/lib/one+0x10 verified"} {
		s := stack(7, 5000+1000*tracefs.Time(i), 0x10010)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != want {
			t.Errorf("stack %d: %q, want %q", i, got, want)
		}
	}
}
